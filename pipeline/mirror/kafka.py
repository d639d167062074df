"""A blocking Kafka client for whole record batches: requests may be sent ahead, replies come in order.

The clients that applications use hand out records; a mirror copies batches, which is what makes it fast.
"""

import socket
import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from pipeline.mirror.planning.errors import KafkaError, Unreachable
from wire.api_table import ApiKey
from wire.client import ClientSession, Versions, response_size
from wire.codec import duration, request_class
from wire.faults import MalformedFrame
from wire.schema import fields_of

CLIENT_ID: Final = "portico-mirror"
TIMEOUT_S: Final = 60.0
_CLOSED: Final = "it closed the connection (where that goes on: is this machine's address on its whitelist?)"
_TIMEVAL: Final = struct.Struct("@ll")
_VERSIONS: Final[dict[int, tuple[int, int]]] = {
    ApiKey.API_VERSIONS: (0, 0),
    ApiKey.PRODUCE: (3, 8),
    ApiKey.FETCH: (4, 11),
    ApiKey.LIST_OFFSETS: (2, 5),
    ApiKey.METADATA: (4, 11),
    ApiKey.FIND_COORDINATOR: (1, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.END_TXN: (0, 3),
    ApiKey.JOIN_GROUP: (2, 5),
    ApiKey.SYNC_GROUP: (1, 3),
    ApiKey.HEARTBEAT: (1, 3),
    ApiKey.LEAVE_GROUP: (3, 3),
    ApiKey.DESCRIBE_GROUPS: (0, 0),
}
"""The lowest and highest version of each API that this package speaks."""


Reply = TypeVar("Reply")


class Connection:
    """One connection to one broker."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
            self._socket.settimeout(None)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(int(TIMEOUT_S), 0))
        except OSError as error:
            raise Unreachable(f"{self.address} cannot be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._session = ClientSession(CLIENT_ID)
        self._versions = Versions(_VERSIONS)
        answer = self.call(ApiKey.API_VERSIONS)
        if answer.error_code != ErrorCode.none:
            raise Unreachable(f"{self.address} does not tell its versions: {answer.error_code.name}")
        self._versions.offer(answer.api_keys)

    @property
    def pending(self) -> int:
        """How many replies are still to come."""
        return len(self._session.pending)

    def serves(self, api: ApiKey) -> bool:
        """Whether the broker and this package have a version of an API in common."""
        return self._versions.highest(api) is not None

    def version(self, api: ApiKey) -> int:
        """The highest version in common. Raises: KafkaError."""
        highest = self._versions.highest(api)
        if highest is None:
            raise KafkaError(ErrorCode.unsupported_version, f"{self.address} does not serve {api.name}")
        return highest

    def send(self, api: ApiKey, **fields: Any) -> None:
        """Send a request. Nested entities are dicts, durations whole ms; what a version lacks is left out."""
        entity = _entity(request_class(api, self.version(api)), fields)
        self._send_all([self._session.request(entity)])

    def send_raw(self, api: ApiKey, head: bytes, records: bytes | bytearray) -> None:
        """Send a request of an inflexible version whose body is there already and ends with records."""
        front = self._session.message_head(api, self.version(api), len(head) + len(records))
        self._send_all([front + head, records])

    def _send_all(self, parts: list[bytes | bytearray]) -> None:
        try:
            sent = self._socket.sendmsg(parts)
            for part in parts:
                if sent < len(part):
                    self._socket.sendall(memoryview(part)[sent:])
                sent = max(0, sent - len(part))
        except OSError as error:
            raise Unreachable(f"{self.address} is gone: {_reason(error)}") from error

    def receive(self) -> Any:
        """The reply to the oldest request without one."""
        return self._receive(self._session.response)

    def receive_raw(self) -> bytes:
        """The frame of the reply to the oldest request without one, correlation id and all."""

        def checked(frame: bytes) -> bytes:
            self._session.answered(frame)
            return frame

        return self._receive(checked)

    def _receive(self, read: Callable[[bytes], Reply]) -> Reply:
        try:
            return read(self._read(response_size(self._read(4))))
        except (OSError, MalformedFrame) as error:
            raise Unreachable(f"{self.address} gave no answer: {_reason(error)}") from error

    def call(self, api: ApiKey, **fields: Any) -> Any:
        """Send a request and wait for its reply; none may be on its way."""
        assert not self.pending, "replies to earlier requests come first"
        self.send(api, **fields)
        return self.receive()

    def _read(self, size: int) -> bytes:
        """Exactly so many bytes, mostly without a copy: the kernel waits for all of them."""
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) == size:
            return data
        parts = [data]
        while size > (have := sum(map(len, parts))):
            parts.append(self._socket.recv(size - have, socket.MSG_WAITALL))
            if not parts[-1]:
                raise ConnectionError(_CLOSED)
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _reason(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return f"nothing came within {TIMEOUT_S:.0f} s"
    return _CLOSED if isinstance(error, ConnectionResetError | BrokenPipeError) else str(error)


def _entity(cls: Any, values: dict[str, Any]) -> Any:
    """kio's entity of plain values."""
    known = {}
    for field in fields_of(cls):
        if field.name not in values:
            continue
        value = values[field.name]
        if field.kafka_type == "entity" and value is not None:
            value = (
                tuple(_entity(field.value_type, item) for item in value)
                if field.is_array
                else _entity(field.value_type, value)
            )
        elif field.kafka_type == "timedelta_i32":
            value = duration(value)
        known[field.name] = value
    return cls(**known)
