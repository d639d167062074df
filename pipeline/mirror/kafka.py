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
TIMEOUT_S: Final = 30.0
_RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
_RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024
_SIZE: Final = struct.Struct(">i")
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
        return self._version(api) is not None

    def _version(self, api: ApiKey) -> int | None:
        lowest, highest = _VERSIONS[api]
        offered_lowest, offered_highest = self._offered.get(api, (0, -1))
        version = min(highest, offered_highest)
        return version if version >= max(lowest, offered_lowest) else None

    def send(self, api: ApiKey, **fields: Any) -> None:
        """Send a request. Nested entities are dicts, durations whole ms; what a version lacks is left out."""
        version = self._version(api)
        if version is None:
            raise KafkaError(ErrorCode.unsupported_version, f"{self.address} does not serve {api.name}")
        self._correlation_id += 1
        frame = framed_request(_entity(request_class(api, version), fields), self._correlation_id, CLIENT_ID)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise Unreachable(f"{self.address} is gone: {error}") from error
        self._pending.append((self._correlation_id, api, version))

    def receive(self) -> Any:
        """The reply to the oldest request without one."""
        expected, api, version = self._pending.popleft()
        try:
            (size,) = _SIZE.unpack(self._read(4))
            if not 4 <= size <= _RESPONSE_BYTES_MAX:
                raise MalformedFrame(f"a reply of {size} bytes")
            correlation_id, message = decode_response(self._read(size), api, version)
        except (OSError, MalformedFrame) as error:
            raise Unreachable(f"{self.address} gave no answer: {error}") from error
        if correlation_id != expected:
            raise Unreachable(f"{self.address} answered {correlation_id}, not {expected}")
        return message

    def call(self, api: ApiKey, **fields: Any) -> Any:
        """Send a request and wait for its reply; none may be on its way."""
        assert not self._pending, "replies to earlier requests come first"
        self.send(api, **fields)
        return self.receive()

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        at = 0
        while at < size:
            read = self._socket.recv_into(view[at : at + _RECEIVE_BUFFER_BYTES])
            if read == 0:
                raise ConnectionError("it closed the connection")
            at += read
        return bytes(buffer)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


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
