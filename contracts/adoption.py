"""What the control plane has brokers of ours take over from another cluster for an instance (ADR 71).

A Kafka frame (request header v1, response header v0), api version 0; the body is msgpack of these structs.
Served to who has proved the deployment's secret and speaks for no client. Records keep their offsets, leader
epochs, producer ids and markers: the log becomes the one that it is copied from, as a follower's does.
"""

from typing import Annotated, Final
from uuid import UUID

import msgspec

ADOPT_KEY: Final = 20_002
"""Far from Kafka's own keys."""
RECORDS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one request: one batch may have as many as the largest `message_bytes_max` that is sold."""
PARTITIONS_MAX: Final = 1_000
"""Partitions of a topic: they are made in one write of the metadata."""

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MAX)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class AdoptTopic(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="topic"):
    """Make a topic that keeps its id, and whose leaders begin in an epoch behind those it had. To the
    controller; others answer NOT_CONTROLLER."""

    topic: str
    """Physical."""
    topic_id: UUID
    partitions: Count
    leader_epoch: Epoch
    configs: dict[str, str]


class AdoptRecords(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="records"):
    """Put whole record batches at the end of a log, as they are; without any: tell where the log is. To the
    leader."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0)]
    topic_id: UUID
    """Another topic of the name is not written to."""
    start_at: Offset | None = None
    """Where the log has to begin, when it ends before that: what it has is dropped."""
    records: bytes = b""


class AdoptTransaction(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="transaction"):
    """What a coordinator knows of a transactional id. To its coordinator."""

    transactional_id: str
    """Physical."""
    producer_id: int = -1
    """-1: the id is forgotten."""
    producer_epoch: int = -1
    timeout_ms: int = 0
    state: str = ""
    """Kafka's name: Empty, Ongoing, CompleteCommit or CompleteAbort."""
    partitions: tuple[tuple[str, int], ...] = ()
    """Of the open transaction, by physical names."""


class AdoptProducerIds(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="producer_ids"):
    """Give out no producer id up to this one any more: others have them. To every broker."""

    up_to: Offset


Adoption = AdoptTopic | AdoptRecords | AdoptTransaction | AdoptProducerIds


class Adopted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What became of it. `error_code` is Kafka's; the offsets are those of the log that was meant."""

    error_code: int = 0
    message: str = ""
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1


_REQUEST: Final[msgspec.msgpack.Decoder[Adoption]] = msgspec.msgpack.Decoder(Adoption)
_RESPONSE: Final = msgspec.msgpack.Decoder(Adopted)


def encode(message: Adoption | Adopted) -> bytes:
    """A message's body."""
    return msgspec.msgpack.encode(message)


def decode_request(body: bytes | memoryview) -> Adoption:
    """Raises: msgspec.MsgspecError."""
    return _REQUEST.decode(body)


def decode_response(body: bytes | memoryview) -> Adopted:
    """Raises: msgspec.MsgspecError."""
    return _RESPONSE.decode(body)
