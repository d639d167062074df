"""How much may be sold to one tenant and on one cluster, and what is left of it. Pure.

What an instance may use is sold when it is ordered: its rates, capacity, partitions and connections count in
full, used or not. Of an instance that was deleted, capacity and partitions count until its data is gone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from contracts.specs import Limits
from contracts.units import counted, format_bytes
from tenants.rules.model import Instance

CEILING_MAX: Final = 10**18
"""No operator means more than this."""


class Amounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number per thing that is sold."""

    instances: int = 0
    produce_rate_bytes_per_s: int = 0
    consume_rate_bytes_per_s: int = 0
    capacity_bytes: int = 0
    partitions: int = 0
    connections: int = 0
    faults: int = 0
    """Injected by tenants, at once; 0 of a tenant or cluster forbids them there."""


WHAT: Final[tuple[str, ...]] = Amounts.__struct_fields__
"""The things that are sold."""
FIELD_OF: Final[dict[str, str]] = {
    "instances": "name",
    "partitions": "limits.partitions_max",
    "connections": "limits.connections_max",
    "faults": "kind",
}
"""The field of an order that asks for a thing, where it has another name."""
_WORDS: Final = {
    "instances": "instance",
    "produce_rate_bytes_per_s": "produce rate",
    "consume_rate_bytes_per_s": "consume rate",
    "capacity_bytes": "capacity",
    "partitions": "partition",
    "connections": "connection",
    "faults": "injected fault",
}
_RATES: Final = ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s")
_KEPT: Final = ("capacity_bytes", "partitions")

TENANT_DEFAULT: Final = Amounts(
    instances=20,
    produce_rate_bytes_per_s=500_000_000,
    consume_rate_bytes_per_s=1_000_000_000,
    capacity_bytes=500 * 10**9,
    partitions=10_000,
    connections=100_000,
    faults=10,
)
"""What a tenant may have until an operator says otherwise."""
BROKER_DEFAULT: Final = Amounts(
    instances=500,
    produce_rate_bytes_per_s=1_000_000_000,
    consume_rate_bytes_per_s=2_000_000_000,
    capacity_bytes=10 * 10**12,
    partitions=30_000,
    connections=500_000,
    faults=100,
)
"""What a cluster may sell per broker until an operator says otherwise; instances and, where the control plane
sees the disk, capacity are the cluster's and not the broker's."""


def cluster_default(brokers: int, disk_bytes: int | None) -> Amounts:
    """What a cluster may sell. `disk_bytes` is the size of the disk that all its data is on, if it is one."""
    count = max(brokers, 1)
    per_broker = {name: count * getattr(BROKER_DEFAULT, name) for name in WHAT}
    per_broker["instances"] = BROKER_DEFAULT.instances
    if disk_bytes is not None:
        per_broker["capacity_bytes"] = disk_bytes
    return Amounts(**per_broker)


def overridden(default: Amounts, own: Mapping[str, int]) -> Amounts:
    """The default with what an operator has set."""
    return msgspec.structs.replace(default, **own)


def asked(instance: Instance) -> Amounts:
    """What an instance is sold."""
    return Amounts(
        instances=1,
        produce_rate_bytes_per_s=instance.produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=instance.consume_rate_bytes_per_s,
        capacity_bytes=instance.capacity_bytes,
        partitions=instance.limits.partitions_max,
        connections=instance.limits.connections_max,
        faults=len(instance.injected_faults),
    )


def kept(instance: Instance) -> Amounts:
    """What a deleted instance still takes."""
    return _of_deleted(asked(instance), were_served=instance.served_at_ms is not None)


def several(
    count: int,
    produce_rate_bytes_per_s: int,
    consume_rate_bytes_per_s: int,
    capacity_bytes: int,
    limits: Limits,
    *,
    are_visible: bool,
    were_served: bool,
) -> Amounts:
    """What instances with the same limits take; rates and capacity are those of all of them, faults are left
    out."""
    amounts = Amounts(
        instances=count,
        produce_rate_bytes_per_s=produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=consume_rate_bytes_per_s,
        capacity_bytes=capacity_bytes,
        partitions=count * limits.partitions_max,
        connections=count * limits.connections_max,
    )
    return amounts if are_visible else _of_deleted(amounts, were_served=were_served)


def _of_deleted(amounts: Amounts, *, were_served: bool) -> Amounts:
    """Its data is there until it is purged. What was never served has none."""
    return Amounts(**{name: getattr(amounts, name) for name in _KEPT}) if were_served else Amounts()


def total(amounts: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    found = list(amounts)
    return Amounts(**{name: sum(getattr(one, name) for one in found) for name in WHAT})


def left(ceilings: Amounts, sold: Amounts) -> Amounts:
    """What may still be sold; nothing where more is sold than the ceiling."""
    return Amounts(**{name: max(0, getattr(ceilings, name) - getattr(sold, name)) for name in WHAT})


class Excess(NamedTuple):
    """One thing of which an order wants more than there is."""

    what: str
    ceiling: int
    sold: int
    """To others of the same tenant or cluster."""
    asked: int

    @property
    def field(self) -> str:
        """The field of the order."""
        return FIELD_OF.get(self.what, self.what)

    def sentence(self, owner: str) -> str:
        """For people: `tenant 'acme' may have ...`."""
        sold, wanted = shown(self.what, self.sold), shown(self.what, self.asked)
        ceiling = _worded(self.what, self.ceiling)
        if self.what == "instances":
            return f"{owner} may have {ceiling} and has {sold}"
        return f"{owner} may have {ceiling} in all: {sold} taken, {wanted} asked"

    def refusal(self, owner: str) -> str:
        """The refusal without what others have."""
        return f"{owner} has no room for {_worded(self.what, self.asked)}"


@dataclass(frozen=True, slots=True)
class Room:
    """What a tenant or a cluster may have and what it has."""

    ceilings: Amounts
    sold: Amounts

    @property
    def left(self) -> Amounts:
        """What may still be sold."""
        return left(self.ceilings, self.sold)

    def excesses(self, wanted: Amounts, before: Amounts | None = None) -> list[Excess]:
        """What is asked too much. `before` is what the same instance has already, and is part of `sold`:
        who asks for less or the same of something is never refused for it."""
        now = before or Amounts()
        found = []
        for name in WHAT:
            asks, had = getattr(wanted, name), getattr(now, name)
            sold = getattr(self.sold, name) - had
            ceiling = getattr(self.ceilings, name)
            if asks > had and sold + asks > ceiling:
                found.append(Excess(name, ceiling, sold, asks))
        return found


def shown(what: str, value: int) -> str:
    """A ceiling with its unit."""
    if what in _RATES:
        return format_bytes(value, rate=True)
    return format_bytes(value) if what == "capacity_bytes" else f"{value:,}"


def _worded(what: str, value: int) -> str:
    """`20 instances`, `500 GB of capacity`."""
    if what in _RATES or what == "capacity_bytes":
        return f"{shown(what, value)} of {_WORDS[what]}"
    return counted(value, _WORDS[what])
