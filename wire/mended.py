"""Message classes that kio has, but with a field that cannot hold what Kafka sends.

DescribeTransactionsResponse 0: the start of a transaction is -1 where none is open, which kio takes for a
point in time and refuses to read. Here it is a number of milliseconds.
Source: DescribeTransactionsResponse.json, KIP-664.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.describe_transactions.v0.response import TopicData as TopicData
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta, i64
from kio.static.protocol import Payload

DESCRIBE_TRANSACTIONS: Final = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transactional id."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    """In milliseconds; -1 without an open transaction."""
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The answer."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]


MENDED_RESPONSES: Final[dict[tuple[int, int], type[Payload]]] = {
    (DESCRIBE_TRANSACTIONS, 0): DescribeTransactionsResponse,
}
"""Response classes by API key and version."""
