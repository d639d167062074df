"""Appends as batches of the offsets topic."""

from broker.groups.messages import Append
from broker.groups.records import encode_key, encode_value
from wire import batch
from wire.control import build_marker

_TRANSACTIONAL_SEQUENCE = 0
"""Sequence of every batch of a coordinator inside a transaction, as in Kafka: nobody checks it."""


def encode_batch(append: Append, now_ms: int) -> bytearray:
    """One batch, offsets not yet assigned."""
    if append.marker is not None:
        return build_marker(*append.marker.producer, append.marker.end, now_ms=now_ms)
    records = tuple(
        batch.Record(0, now_ms, encode_key(record), encode_value(record)) for record in append.records
    )
    if append.producer is None:
        return batch.build_batch(records)
    return batch.build_batch(
        records,
        producer_id=append.producer.producer_id,
        producer_epoch=append.producer.producer_epoch,
        base_sequence=_TRANSACTIONAL_SEQUENCE,
        attributes=batch.TRANSACTIONAL_BIT,
    )
