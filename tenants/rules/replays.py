"""Stored batches as a client could have produced them: how a log goes to brokers that take records from
producers only. Pure (ADR 71).

Offsets stay what they were, so every offset of a log is taken by something: a batch, or a filler that no
consumer is shown. Such a broker takes no batch with holes, with a delete horizon or of a transaction that it
does not know, so batches of that kind are written again; what was aborted and what the cleaner took out is
filled.
Source: Kafka LogValidator, DefaultRecordBatch, Fetcher (aborted transactions).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wire.batch import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    seal_batch,
)
from wire.compression import compress, decompress
from wire.record_runs import largest_timestamp_delta
from wire.varint import read_varint, write_varint

_UNKNOWN_EPOCH: Final = -1


class Step(NamedTuple):
    """What takes the offsets from `first` to before `end`."""

    first: int
    end: int
    batch: bytes | None
    """With base offset 0; None: these offsets have no record."""


class Aborted(NamedTuple):
    """An aborted transaction as a fetch tells of it."""

    producer_id: int
    first_offset: int


def are_aborted(headers: Iterable[BatchHeader], transactions: Iterable[Aborted]) -> Iterator[bool]:
    """Whether each batch is of an aborted transaction. Batches are in the order of a log, `transactions` all
    that have an offset among them, or an earlier one and no marker before them."""
    waiting = sorted(transactions, key=lambda one: one.first_offset, reverse=True)
    open_ids: set[int] = set()
    for header in headers:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_ids.add(waiting.pop().producer_id)
        if header.is_control:
            open_ids.discard(header.producer_id)
        yield header.is_transactional and not header.is_control and header.producer_id in open_ids


def steps(
    header: BatchHeader, batch: memoryview, *, is_aborted: bool, forgets_producer: bool = False
) -> list[Step]:
    """What takes the offsets of one whole batch, in their order. `forgets_producer`: the batch goes without
    its producer's id and sequence, as those of transactions do.

    Raises: PayloadUnreadable, ValueError where the bytes are not what their header says.
    """
    if header.is_control or is_aborted or header.record_count == 0:
        return [Step(header.base_offset, header.next_offset, None)]
    plain = header._replace(
        base_offset=0,
        partition_leader_epoch=_UNKNOWN_EPOCH,
        attributes=header.attributes & ~(DELETE_HORIZON_BIT | TRANSACTIONAL_BIT),
    )
    has_holes = header.record_count != header.last_offset_delta + 1
    if has_holes or header.is_transactional or forgets_producer:
        plain = plain._replace(
            producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE
        )
    if has_holes:
        return _without_holes(header, plain, batch)
    _, sealed = seal_batch(plain, bytes(batch[HEADER_SIZE:]))
    return [Step(header.base_offset, header.next_offset, bytes(sealed))]


def _without_holes(header: BatchHeader, plain: BatchHeader, batch: memoryview) -> list[Step]:
    """A batch for each run of neighbouring offsets, and what is between them."""
    payload = bytes(decompress(bytes(batch[HEADER_SIZE:]), header.codec))
    found: list[Step] = []
    at = header.base_offset
    for run in _runs(payload, header.record_count):
        first = header.base_offset + run[0].offset_delta
        end = first + len(run)
        if first > at:
            found.append(Step(at, first, None))
        spans = [(run[0].start, run[-1].end)]
        newest = header.base_timestamp_ms + largest_timestamp_delta(payload, spans)
        run_header = plain._replace(
            last_offset_delta=len(run) - 1,
            max_timestamp_ms=header.max_timestamp_ms if header.is_log_append_time else newest,
            record_count=len(run),
        )
        _, sealed = seal_batch(run_header, compress(_renumbered(payload, run), header.codec))
        found.append(Step(first, end, bytes(sealed)))
        at = end
    if at < header.next_offset:
        found.append(Step(at, header.next_offset, None))
    return found


class _Place(NamedTuple):
    """One record inside a payload."""

    start: int
    end: int
    offset_delta: int


def _runs(payload: bytes, count: int) -> Iterator[Sequence[_Place]]:
    """Records of neighbouring offsets. Raises: ValueError."""
    run: list[_Place] = []
    at = found = 0
    try:
        while at < len(payload):
            start = at
            length, at = read_varint(payload, at)
            end = at + length
            _, delta_at = read_varint(payload, at + 1)
            delta, _ = read_varint(payload, delta_at)
            if not at < end <= len(payload) or (run and delta <= run[-1].offset_delta):
                raise ValueError(f"a record of offset delta {delta} ends at {end} of {len(payload)}")
            if run and delta != run[-1].offset_delta + 1:
                yield run
                run = []
            run.append(_Place(start, end, delta))
            at = end
            found += 1
    except IndexError as error:
        raise ValueError("the records are cut off") from error
    if found != count:
        raise ValueError(f"{found} records where the header says {count}")
    yield run


def _renumbered(payload: bytes, run: Sequence[_Place]) -> bytes:
    """The records of a run with offset deltas from 0 on."""
    out = bytearray()
    for delta, place in enumerate(run):
        _, at = read_varint(payload, place.start)
        _, delta_at = read_varint(payload, at + 1)
        _, rest_at = read_varint(payload, delta_at)
        head = bytearray(payload[at:delta_at])
        write_varint(head, delta)
        write_varint(out, len(head) + place.end - rest_at)
        out += head
        out += payload[rest_at : place.end]
    return bytes(out)
