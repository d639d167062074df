"""A blocking Kafka client for whole record batches: requests may be sent ahead, replies come in order.

The clients that applications use hand out records; a mirror copies batches, which is what makes it fast.
"""

import socket
import struct
from collections import deque
from typing import Any, Final

from kio.schema.errors import ErrorCode

from pipeline.mirror.errors import KafkaError, Unreachable
from wire.api_table import ApiKey
from wire.codec import MalformedFrame, decode_response, duration, framed_request, request_class
from wire.schema import fields_of

CLIENT_ID: Final = "portico-mirror"
TIMEOUT_S: Final = 60.0
_RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhih")
_CLOSED: Final = "it closed the connection (where that goes on: is this machine's address on its whitelist?)"
_TIMEVAL: Final = struct.Struct("@ll")
_VERSIONS: Final = {
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
        self._correlation_id = 0
        self._pending: deque[tuple[int, int, int]] = deque()
        self._offered: dict[int, tuple[int, int]] = {ApiKey.API_VERSIONS: (0, 0)}
        answer = self.call(ApiKey.API_VERSIONS)
        if answer.error_code != ErrorCode.none:
            raise Unreachable(f"{self.address} does not tell its versions: {answer.error_code.name}")
        self._offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    @property
    def pending(self) -> int:
        """How many replies are still to come."""
        return len(self._pending)

    def serves(self, api: ApiKey) -> bool:
        """Whether the broker and this package have a version of an API in common."""
        lowest, highest = _VERSIONS[api]
        offered_lowest, offered_highest = self._offered.get(api, (0, -1))
        return min(highest, offered_highest) >= max(lowest, offered_lowest)

    def version(self, api: ApiKey) -> int:
        """The highest version in common. Raises: KafkaError."""
        if not self.serves(api):
            raise KafkaError(ErrorCode.unsupported_version, f"{self.address} does not serve {api.name}")
        return min(_VERSIONS[api][1], self._offered[api][1])

    def send(self, api: ApiKey, **fields: Any) -> None:
        """Send a request. Nested entities are dicts, durations whole ms; what a version lacks is left out."""
        version = self.version(api)
        entity = _entity(request_class(api, version), fields)
        self._correlation_id += 1
        self._send_all(api, version, [framed_request(entity, self._correlation_id, CLIENT_ID)])

    def send_raw(self, api: ApiKey, head: bytes, records: bytes | bytearray) -> None:
        """Send a request of an inflexible version whose body is there already and ends with records."""
        version = self.version(api)
        self._correlation_id += 1
        client = CLIENT_ID.encode()
        front = _REQUEST_HEAD.pack(api, version, self._correlation_id, len(client)) + client + head
        self._send_all(api, version, [_SIZE.pack(len(front) + len(records)) + front, records])

    def _send_all(self, api: ApiKey, version: int, parts: list[bytes | bytearray]) -> None:
        try:
            sent = self._socket.sendmsg(parts)
            for part in parts:
                if sent < len(part):
                    self._socket.sendall(memoryview(part)[sent:])
                sent = max(0, sent - len(part))
        except OSError as error:
            raise Unreachable(f"{self.address} is gone: {_reason(error)}") from error
        self._pending.append((self._correlation_id, api, version))

    def receive(self) -> Any:
        """The reply to the oldest request without one."""
        _, api, version = self._pending[0]
        frame = self.receive_raw()
        try:
            return decode_response(frame, api, version)[1]
        except MalformedFrame as error:
            raise Unreachable(f"{self.address} gave no answer: {error}") from error

    def receive_raw(self) -> bytes:
        """The same as bytes, correlation id and all."""
        expected, _, _ = self._pending.popleft()
        try:
            (size,) = _SIZE.unpack(self._read(4))
            if not 4 <= size <= _RESPONSE_BYTES_MAX:
                raise ConnectionError(f"a reply of {size} bytes")
            frame = self._read(size)
        except OSError as error:
            raise Unreachable(f"{self.address} gave no answer: {_reason(error)}") from error
        (correlation_id,) = _SIZE.unpack_from(frame)
        if correlation_id != expected:
            raise Unreachable(f"{self.address} answered {correlation_id}, not {expected}")
        return frame

    def call(self, api: ApiKey, **fields: Any) -> Any:
        """Send a request and wait for its reply; none may be on its way."""
        assert not self._pending, "replies to earlier requests come first"
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


def _reason(error: OSError) -> str:
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
