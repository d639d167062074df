"""What brokers and gateways know, or hold data, of instances that the feed does not let them serve.

They tell the control plane every few seconds while there are any, so that an operator sees what is kept and
can take it back (ADR-0015). Times are epoch ms.
"""

from typing import Final

import msgspec

from contracts.specs import MESSAGE_VERSION, ConsumerKind, InstanceSpec

SPECS_AT_ONCE_MAX: Final = 200
"""Specs asked for in one answer: a report stays below the internal server's bound."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that is deleted or absent, as one process knows it."""

    instance_id: str
    absent_since_ms: int | None = None
    """When the feed ceased to tell of it; None: the feed says that it is deleted."""
    stored_bytes: int = 0
    """Bytes of the partitions led here."""
    partitions: int = 0
    """Led here."""
    has_spec: bool = False
    """Whether this process knows how it was served last."""
    spec: InstanceSpec | None = None
    """The spec that was served last; only when it was asked for."""


class HoldingsReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /internal/v1/holdings: everything that this process holds and does not serve."""

    consumer: str
    kind: ConsumerKind
    cluster_id: str | None = None
    """The broker's cluster."""
    holdings: tuple[Holding, ...] = ()
    version: int = MESSAGE_VERSION


class HoldingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Names the absent instances whose last spec the control plane wants, in the next report."""

    wanted: tuple[str, ...] = ()
    version: int = MESSAGE_VERSION
