"""Records as batches of the transaction log."""

from broker.transactions.records import TransactionRecord, encode_key, encode_value
from wire.batch import Record, build_batch


def encode_batch(record: TransactionRecord, now_ms: int) -> bytearray:
    """One batch, offset not yet assigned."""
    return build_batch((Record(0, now_ms, encode_key(record), encode_value(record)),))
