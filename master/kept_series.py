"""The hour of rates and quotas, kept in Redis so that a master's successor goes on with it (ADR 24).

Every ten seconds, when a slot of the history ends, its samples and their mean are added to two lists of the
instance; both end by themselves. What is read back is checked: a chunk that is not one of ours is left out,
and without Redis, or when it has lost everything, the series start anew. Calls block.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from master.quota.history import (
    BROKER_COLUMNS,
    COARSE_SPAN_MS,
    COARSE_STEP_MS,
    DIRECTION_COLUMNS,
    FINE_SPAN_MS,
    InstanceHistory,
    Row,
    Sample,
    Slot,
)
from runtime.logs import get_logger
from runtime.redis_link import RedisAway, RedisLink

if TYPE_CHECKING:
    from redis import Redis

_log = get_logger(__name__)
_FINE: Final = "portico:series:fine:"
_MEANS: Final = "portico:series:means:"
_CHUNK_BYTES_MAX: Final = 1024 * 1024
"""Size of a chunk, unpacked."""
_AT_ONCE: Final = 50
"""Instances of one call, so that a call stays short."""
_SPARE_MS: Final = 60_000

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Broker = Annotated[list[_Count], msgspec.Meta(min_length=BROKER_COLUMNS, max_length=BROKER_COLUMNS)]
_Point = Annotated[list[_Count], msgspec.Meta(min_length=DIRECTION_COLUMNS, max_length=DIRECTION_COLUMNS)]


class _Kept(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One sample."""

    at_ms: _Count
    stored_bytes: _Count
    blocked: bool
    brokers: dict[int, _Broker]
    cpu: dict[str, _Point]


_DECODER: Final = msgspec.msgpack.Decoder(list[_Kept])


class KeptSeries:
    """The series of all instances."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    def keep(self, slots: Mapping[str, Slot]) -> None:
        """Add the slots that have ended; as many as Redis takes now."""
        left = iter(slots.items())
        while some := list(islice(left, _AT_ONCE)):
            packed = [(key, _packed(slot.samples), _packed([slot.mean])) for key, slot in some]
            try:
                self._link.call("series", _adding(packed), writes=True)
            except RedisAway:
                return

    def recall(self, instance_ids: Iterable[str], now_ms: int) -> dict[str, InstanceHistory]:
        """The histories of instances, of those that have one; `now_ms` is epoch."""
        found: dict[str, InstanceHistory] = {}
        left = iter(instance_ids)
        while some := list(islice(left, _AT_ONCE)):
            try:
                lists = self._link.call("series", _reading(some))
            except RedisAway:
                return found
            for place, instance_id in enumerate(some):
                means, fine = (_unpacked(each) for each in lists[2 * place : 2 * place + 2])
                if means or fine:
                    found[instance_id] = InstanceHistory.of(_before(means, now_ms), _before(fine, now_ms))
        return found


def _adding(packed: Sequence[tuple[str, bytes, bytes]]) -> Any:
    def add(redis: "Redis") -> None:
        pipeline = redis.pipeline(transaction=False)
        for instance_id, fine, mean in packed:
            for name, chunk, span_ms in (
                (_FINE + instance_id, fine, FINE_SPAN_MS),
                (_MEANS + instance_id, mean, COARSE_SPAN_MS),
            ):
                pipeline.rpush(name, chunk)
                pipeline.ltrim(name, -(span_ms // COARSE_STEP_MS), -1)
                pipeline.pexpire(name, span_ms + _SPARE_MS)
        pipeline.execute()

    return add


def _reading(instance_ids: Sequence[str]) -> Any:
    def read(redis: "Redis") -> list[list[bytes]]:
        pipeline = redis.pipeline(transaction=False)
        for instance_id in instance_ids:
            pipeline.lrange(_MEANS + instance_id, -(COARSE_SPAN_MS // COARSE_STEP_MS), -1)
            pipeline.lrange(_FINE + instance_id, -(FINE_SPAN_MS // COARSE_STEP_MS), -1)
        answers: list[list[bytes]] = pipeline.execute()
        return answers

    return read


def _packed(samples: Sequence[Sample]) -> bytes:
    """Keeps the two ends of a stretch in which nothing changed."""
    ends = [
        one
        for place, one in enumerate(samples)
        if place in (0, len(samples) - 1) or not samples[place - 1].row == one.row == samples[place + 1].row
    ]
    kept = [
        _Kept(
            one.at_ms,
            one.row.stored_bytes,
            one.row.blocked,
            {node: list(columns) for node, columns in one.row.brokers.items()},
            {point: list(columns) for point, columns in one.row.cpu.items()},
        )
        for one in ends
    ]
    return zlib.compress(msgspec.msgpack.encode(kept), 1)


def _unpacked(chunks: Sequence[bytes]) -> list[Sample]:
    samples: list[Sample] = []
    for chunk in chunks:
        try:
            unpacking = zlib.decompressobj()
            plain = unpacking.decompress(chunk, _CHUNK_BYTES_MAX)
            kept = _DECODER.decode(plain) if not unpacking.unconsumed_tail else []
        except (zlib.error, msgspec.MsgspecError):
            _log.warning("a chunk of the series in Redis is not one of ours: it is left out")
            continue
        samples += [
            Sample(one.at_ms, Row(one.stored_bytes, one.blocked, one.brokers, one.cpu)) for one in kept
        ]
    return samples


def _before(samples: Iterable[Sample], now_ms: int) -> list[Sample]:
    """In order, none twice (two masters may have written at once), none from the future."""
    found: list[Sample] = []
    for one in samples:
        if one.at_ms < now_ms and (not found or one.at_ms > found[-1].at_ms):
            found.append(one)
    return found
