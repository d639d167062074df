"""The control plane's nouns as values: instances, tenants, who asks. Pure."""

from dataclasses import dataclass, field, replace
from typing import Final

from contracts.acls import Acl
from contracts.client_metrics import MetricsSubscription
from contracts.injected_faults import InjectedFault
from contracts.oauth import OauthSpec
from contracts.specs import Deletion, FullBehaviour, InstanceSpec, InstanceState, Limits, Listener
from contracts.users import KafkaUser, SecurityProtocol
from tenants.rules.lifecycle import State
from tenants.rules.permissions import PERMISSIONS, Permission, Role

DEFAULT_TENANT: Final = "default"
OPERATORS: Final = "operator:"
"""How the names of actors begin that are operators."""
SYSTEM_TENANT: Final = "system"
"""Owns the system instance; nobody logs in as it."""


_SPEC_STATES: Final = {
    State.CREATING: InstanceState.ACTIVE,
    State.RUNNING: InstanceState.ACTIVE,
    State.FAILED: InstanceState.ACTIVE,
    State.SUSPENDED: InstanceState.SUSPENDED,
    State.DELETED: InstanceState.DELETED,
    State.PURGING: InstanceState.PURGED,
    State.PURGED: InstanceState.PURGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Everything the control plane keeps of one instance."""

    id: str
    tenant: str
    name: str
    state: State
    state_reason: str | None = None
    cluster_id: str
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int
    request_percent: int | None = None
    """Request time in percent of one core over the cluster; None: what goes with the byte rates."""
    limits: Limits = field(default_factory=Limits)
    full_behaviour: FullBehaviour = FullBehaviour.REJECT
    auto_create_topics: bool = False
    legacy_clients: bool = False
    client_metrics: bool = True
    """Whether clients are asked for metrics of their own."""
    metric_subscriptions: tuple[MetricsSubscription, ...] = ()
    """What the tenant asks of them besides, in order of their names."""
    allow_all: bool = False
    whitelist: tuple[str, ...] = ()
    topic_whitelists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    users: tuple[KafkaUser, ...] = ()
    """In order of their names."""
    oauth: OauthSpec | None = None
    """By whose tokens others log in; None: by nobody's."""
    acls: tuple[Acl, ...] = ()
    acls_enforced: bool = False
    security_protocols: tuple[SecurityProtocol, ...] = (SecurityProtocol.PLAIN,)
    """How clients may come in; for each there is a listener for every broker."""
    listeners: tuple[Listener, ...] = ()
    listeners_withheld: bool = False
    """A port is in use by somebody else: gateways are not told of the listeners, since SO_REUSEPORT
    would let them bind in silence and share the port."""
    is_held: bool = False
    """It is about to be served from another cluster; for a moment nobody is."""
    epochs_anew: bool = False
    """It came to a cluster where leader epochs began at 0 again: those that clients know mean nothing."""
    injected_faults: tuple[InjectedFault, ...] = ()
    """Faults that act, or have just ended by themselves."""
    deletion: Deletion | None = None
    """When an instance was deleted that is deleted, purging or purged, and until when it is kept."""
    was_suspended: bool = False
    """Whether it was suspended when it was deleted: so it comes back."""
    created_at_ms: int
    updated_at_ms: int
    served_at_ms: int | None = None
    """When gateways served it for the first time: since then clients may know its ports, and it has data."""
    revision: int = 0

    @property
    def is_visible(self) -> bool:
        """Deleted instances are gone for everybody at once, while their data is kept or purged."""
        return self.state not in (State.DELETED, State.PURGING, State.PURGED)

    @property
    def bootstrap(self) -> Listener | None:
        """The listener that clients are told, of several the simplest."""
        return next(iter(self.bootstraps), None)

    @property
    def bootstraps(self) -> list[Listener]:
        """The listeners that clients begin with, one for each way of coming in."""
        return [one for one in self.listeners if one.node_id is None]

    def with_(self, **changes: object) -> "Instance":
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


SIZES: Final = ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes")
"""What an instance buys."""
TERMS: Final = (
    *("limits", "request_percent", "full_behaviour", "auto_create_topics", "legacy_clients"),
    *("allow_all", "whitelist", "topic_whitelists", "security_protocols", "users", "oauth"),
    *("acls", "acls_enforced", "client_metrics", "metric_subscriptions"),
)
"""What else of it stands in its spec by the same name."""


def spec_of(instance: Instance) -> InstanceSpec:
    """What data-plane processes are told of an instance."""
    return InstanceSpec(
        revision=instance.revision,
        instance_id=instance.id,
        tenant=instance.tenant,
        name=instance.name,
        state=_SPEC_STATES[instance.state],
        cluster_id=instance.cluster_id,
        listeners=instance.listeners if instance.is_visible and not instance.listeners_withheld else (),
        injected_faults=instance.injected_faults,
        is_held=instance.is_held,
        epochs_anew=instance.epochs_anew,
        deletion=instance.deletion,
        **{name: getattr(instance, name) for name in (*SIZES, *TERMS)},
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the REST layer established it."""

    kind: str
    """`session` or `key`."""
    name: str
    tenant: str
    role: Role
    address: str | None
    id: str = ""
    """The key's id; a session's is its user."""

    @property
    def is_operator(self) -> bool:
        """Whether the caller acts for every tenant."""
        return self.may(Permission.EVERY_TENANT)

    def may(self, permission: Permission) -> bool:
        """Whether the caller's role has a permission."""
        return permission in PERMISSIONS[self.role]

    @property
    def actor(self) -> str:
        """How the audit log names the caller; tenants are told of operators' doings, not who they are."""
        return f"{OPERATORS if self.is_operator else ''}{self.kind}:{self.name}"
