"""What users of an instance change of it by Kafka's own tools: a gateway asks the control plane for it."""

from typing import Final

import msgspec

from contracts.acls import Acl, AclFilter
from contracts.client_metrics import MetricsSubscription
from contracts.specs import MESSAGE_VERSION
from contracts.users import Mechanism, ScramCredential

ACCESS_PATH: Final = "/internal/v1/access"


class UserCredential(msgspec.Struct, frozen=True, array_like=True):
    """Of one user."""

    name: str
    credential: ScramCredential


class UserMechanism(msgspec.Struct, frozen=True, array_like=True):
    """One of the ways in which a user logs in."""

    name: str
    mechanism: Mechanism


class AccessOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """POST /internal/v1/access. The gateway has looked whether its user may. What is empty is left out:
    gateways may be newer than the control plane, which refuses what it does not know."""

    instance_id: str
    principal: str
    """Who asks, for the audit log."""
    address: str
    acls: tuple[Acl, ...] = ()
    """To be added."""
    filters: tuple[AclFilter, ...] = ()
    """ACLs to be deleted."""
    credentials: tuple[UserCredential, ...] = ()
    """What users' passwords are checked by from now on; users that are not there are made."""
    forgotten: tuple[UserMechanism, ...] = ()
    """How users may log in no longer. One that cannot at all is deleted."""
    subscriptions: tuple[MetricsSubscription, ...] = ()
    """To client metrics, each in place of the one of its name; one that says nothing is deleted."""
    version: int = msgspec.field(default_factory=lambda: MESSAGE_VERSION)
    """Told always."""


class AccessAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All of it was done, or nothing."""

    refusal: str = ""
    """Why nothing was."""
    is_passing: bool = False
    """Whether the same order may be carried out later."""
    revision: int = 0
    """The instance's from now on."""
    deleted: tuple[tuple[Acl, ...], ...] = ()
    """By filter; each with the first that means it."""
