"""Which client quotas of an Apache Kafka are to be set, changed or removed (ADR 0044). Pure.

An entity is an instance at one broker: gateways send its Produce and Fetch requests with such a client id.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from contracts.names import client_id_at, is_instance_id

CHANGE_PART: Final = 20
"""A rate is changed when it differs by more than one twentieth: each change is a metadata record."""
CHANGED_EVERY_MS: Final = 5_000
"""No entity is changed more often, but for a rise that would be in the way."""
ROOM_PART: Final = 4
"""Quotas are a fourth above the rates that gateways hold to: Kafka judges by windows of seconds, in which
eight connections of an even rate look like more than that."""
RISE_PART: Final = 8
"""A rise of more than an eighth is at once: otherwise what is set would be what holds clients back."""
SETTLED_AFTER_MS: Final = 20_000
"""An entity that was left alone for so long gets its exact rates."""
BATCH_MAX: Final = 300
"""Entities of one request: encoding it and reading its answer hold a loop."""


class Entity(NamedTuple):
    """An instance at one broker."""

    instance_id: str
    node_id: int

    @property
    def client_id(self) -> str:
        """What the cluster knows it by."""
        return client_id_at(self.instance_id, self.node_id)


class Rates(NamedTuple):
    """What its client quotas say."""

    produce_bytes_per_s: int
    consume_bytes_per_s: int
    request_us_per_s: int = 0
    """Time of the broker's threads; 0: none is set."""


class Change(NamedTuple):
    """One entity's new rates; None: its quotas are removed."""

    entity: Entity
    rates: Rates | None


def backstop(shares: Rates) -> Rates:
    """The quotas that stand behind what gateways hold to."""
    return Rates(*(share + share // ROOM_PART for share in shares))


def entity_of(client_id: str) -> Entity | None:
    """The entity of a client id; None: somebody else's."""
    instance_id, _, node = client_id.partition("@")
    if not is_instance_id(instance_id) or not (node.isascii() and node.isdigit() and len(node) < 11):
        return None
    return Entity(instance_id, int(node))


def changes(
    wanted: Mapping[Entity, Rates],
    known: Mapping[Entity, Rates],
    changed_at_ms: Mapping[Entity, int],
    now_ms: int,
) -> list[Change]:
    """What is to be set now: what nobody has set first, as many as go into one request."""
    missing = [Change(entity, rates) for entity, rates in wanted.items() if entity not in known]
    if len(missing) >= BATCH_MAX:
        return missing[:BATCH_MAX]
    due = [
        Change(entity, rates)
        for entity, rates in wanted.items()
        if entity in known and _is_due(rates, known[entity], now_ms - changed_at_ms.get(entity, 0))
    ]
    due.sort(key=lambda change: changed_at_ms.get(change.entity, 0))
    return [*missing, *due][:BATCH_MAX]


def _is_due(wanted: Rates, known: Rates, unchanged_ms: int) -> bool:
    if wanted == known:
        return False
    pairs = list(zip(wanted, known, strict=True))
    if any(RISE_PART * (new - old) > old for new, old in pairs):
        return True
    if unchanged_ms < CHANGED_EVERY_MS:
        return False
    return unchanged_ms >= SETTLED_AFTER_MS or any(CHANGE_PART * abs(new - old) > old for new, old in pairs)


def leftovers(
    known: Iterable[Entity],
    served: Collection[str],
    with_topics: Collection[str],
    nodes: Collection[int],
) -> list[Change]:
    """Quotas that limit nothing any more: of brokers that nobody has registered, and of instances that are
    neither served nor hold a topic. Of an instance that is merely not told of, they stay."""
    return [
        Change(entity, None)
        for entity in known
        if entity.node_id not in nodes
        or (entity.instance_id not in served and entity.instance_id not in with_topics)
    ][:BATCH_MAX]


class SetQuotas:
    """What is set in one cluster, as far as it has said."""

    def __init__(self) -> None:
        self.trouble: str | None = "it was not looked at yet"
        """Why they are not those of the leases, in a sentence; None: they are."""
        self.known: dict[Entity, Rates] = {}
        self._changed_at_ms: dict[Entity, int] = {}
        self._trusted_until_ms = 0

    def learn(self, described: Mapping[Entity, Rates]) -> None:
        """The cluster has told all."""
        self.known = dict(described)
        self._changed_at_ms = {
            entity: at_ms for entity, at_ms in self._changed_at_ms.items() if entity in described
        }

    def done(self, change: Change, now_ms: int) -> None:
        """The cluster has taken it."""
        if change.rates is None:
            self.known.pop(change.entity, None)
            self._changed_at_ms.pop(change.entity, None)
        else:
            self.known[change.entity] = change.rates
            self._changed_at_ms[change.entity] = now_ms

    def trust(self, until_ms: int) -> None:
        """What is known is what the cluster applies: it is the one that was met, and takes changes."""
        self._trusted_until_ms = until_ms

    def stands(self, entity: Entity, now_ms: int) -> bool:
        """Whether the cluster limits the entity."""
        return entity in self.known and now_ms < self._trusted_until_ms

    def due(self, wanted: Mapping[Entity, Rates], now_ms: int) -> list[Change]:
        """What is to be set now."""
        return changes(wanted, self.known, self._changed_at_ms, now_ms)
