"""What the broker asks its scanning process, and its answers: MessagePack behind a length of four bytes."""

import struct
from typing import Any, Final, TypeAlias

import msgspec

from broker.log.results import TimestampOffset
from broker.log.time_lookup import LatestSearch, TimeSearch

LENGTH: Final = struct.Struct(">I")


class CheckRecords(msgspec.Struct, frozen=True, tag="check", array_like=True):
    """Whether the records of a batch are what its header declares; `payload` is what follows the header."""

    payload: Any
    """bytes; where it is sent from, any buffer."""
    codec: int
    record_count: int
    needs_keys: bool
    bytes_max: int
    """Decompressed."""


class FindTime(msgspec.Struct, frozen=True, tag="find", array_like=True):
    """`broker.log.time_lookup.find` with this search."""

    search: TimeSearch


class FindLatest(msgspec.Struct, frozen=True, tag="latest", array_like=True):
    """As FindTime."""

    search: LatestSearch


class Convert(msgspec.Struct, frozen=True, tag="convert", array_like=True):
    """One record batch of the messages of formats v0 and v1 that an old client sent."""

    message_set: Any
    """bytes; where it is sent from, any buffer."""
    needs_keys: bool


Job: TypeAlias = CheckRecords | FindTime | FindLatest | Convert


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One job, for an instance ("" for whoever has none)."""

    number: int
    instance_id: str
    job: Job


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The bytes break a rule: Kafka's error code, and the records it is about where they can be named."""

    error_code: int
    message: str
    record_indexes: tuple[int, ...] = ()


class Right(msgspec.Struct, frozen=True, tag="right", array_like=True):
    """The records are what they should be."""


class Found(msgspec.Struct, frozen=True, tag="found", array_like=True):
    """What a search for a time has found."""

    record: TimestampOffset | None


class Converted(msgspec.Struct, frozen=True, tag="converted", array_like=True):
    """The batch, whose records are right."""

    records: bytes


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """The job could not be done: nothing is known of the bytes."""

    message: str


Result: TypeAlias = Refused | Right | Found | Converted | Failed


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What became of the job with this number."""

    number: int
    result: Result
    cpu_us: int
    steps: int
    """How often it gave others their turn."""


def framed(message: Request | Answer) -> bytes:
    """The bytes on the socket."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a stream into the bodies of frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now."""
        pending = self._pending
        pending += data
        found = []
        at = 0
        while len(pending) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(pending, at)
            end = at + LENGTH.size + size
            if end > len(pending):
                break
            found.append(bytes(pending[at + LENGTH.size : end]))
            at = end
        del pending[:at]
        return found
