"""A Kafka client on a bare socket: what tests of protocol details need, and nothing hidden."""

import socket
import struct
import time
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from wire.batch import Record, build_batch
from wire.build import build as build_known
from wire.codec import decode_response, duration, encode, framed_request, request_class


class RawClient:
    """One connection; frames can be sent and received apart."""

    def __init__(self, port: int, timeout_s: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._sent: list[tuple[int, int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Any) -> None:
        """Send a kio request."""
        self._correlation_id += 1
        self._sent.append((request.__api_key__, request.__version__, self._correlation_id))
        self.socket.sendall(framed_request(request, self._correlation_id, "raw"))

    def receive(self) -> Any:
        """The answer to the oldest request without one."""
        api_key, api_version, expected = self._sent.pop(0)
        correlation_id, response = decode_response(self.receive_frame(), api_key, api_version)
        assert correlation_id == expected
        return response

    def call(self, request: Any) -> Any:
        """Send and receive."""
        self.send(request)
        return self.receive()

    def send_frame(self, api_key: int, api_version: int, body: bytes, *, flexible: bool = False) -> None:
        """Send a request whose body is given as bytes."""
        self._correlation_id += 1
        head = struct.pack(">hhih", api_key, api_version, self._correlation_id, -1)
        frame = head + (b"\0" if flexible else b"") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """One response without its length prefix."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = self.socket.recv(min(size - len(out), 1 << 20))
            if not piece:
                raise ConnectionError(f"closed after {len(out)} of {size} bytes")
            out += piece
        return bytes(out)

    def is_closed(self, within_s: float = 30.0) -> bool:
        """Whether the broker closes the connection in time, and sends nothing before."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def request(api_key: int, api_version: int, **values: Any) -> Any:
    """A kio request of one version, from those values that it has; elements are dicts."""
    return build(request_class(api_key, api_version), values)


def build(cls: Any, values: dict[str, Any]) -> Any:
    """An entity from plain values."""
    fields = {name: field for name, field in cls.__dataclass_fields__.items() if not name.startswith("__")}
    arguments = {}
    for name, value in values.items():
        if name not in fields:
            continue
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
            value = tuple(build(_element(fields[name].type), each) for each in value)
        elif isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, dict):
            value = build(_element(fields[name].type), value)
        arguments[name] = value
    switches = {name: False for name, field in fields.items() if field.type in (bool, "bool")}
    return cls(**(switches | arguments))


def _element(annotation: Any) -> Any:
    candidates = [annotation]
    while candidates:
        candidate = candidates.pop()
        if isinstance(candidate, type) and hasattr(candidate, "__dataclass_fields__"):
            return candidate
        candidates += getattr(candidate, "__args__", ())
    raise AssertionError(f"no element in {annotation}")


_FLEXIBLE_FROM = 9


def batch(*values: bytes, **changes: Any) -> bytes:
    """A record batch of these values, now."""
    now_ms = int(time.time() * 1000)
    records = tuple(Record(number, now_ms, None, value) for number, value in enumerate(values))
    return bytes(build_batch(records, **changes))


def produce_body(
    topic: str, partition: int, records: bytes | None, *, acks: int = -1, transactional_id: str | None = None
) -> bytes:
    """The body of a Produce request v3-8."""
    out = struct.pack(">h", -1) if transactional_id is None else _string(transactional_id)
    out += struct.pack(">hii", acks, 5_000, 1) + _string(topic) + struct.pack(">ii", 1, partition)
    if records is None:
        return out + struct.pack(">i", -1)
    return out + struct.pack(">i", len(records)) + records


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def produce(
    client: RawClient, topic: str, records: bytes, *, partition: int = 0, version: int = 8, acks: int = -1
) -> Any:
    """Produce one batch; the partition's answer."""
    if version >= _FLEXIBLE_FROM:
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        timeout = duration(5_000)
        asked = {"transactional_id": None, "acks": acks, "timeout": timeout, "topic_data": data}
        response = client.call(request(0, version, **asked))
    else:
        client.send_frame(0, version, produce_body(topic, partition, records, acks=acks))
        _, response = decode_response(client.receive_frame(), 0, version)
    return response.responses[0].partition_responses[0]


def create_topic(client: RawClient, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic; config keys have _ for dots."""
    answer = client.call(
        request(
            19,
            4,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "assignments": (),
                    "configs": [
                        {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
                    ],
                }
            ],
        )
    )
    assert answer.topics[0].error_code.value == 0, answer.topics[0]


def fetch(
    client: RawClient, topic: str, offset: int, *, partition: int = 0, version: int = 11, **changes: Any
) -> Any:
    """Fetch one partition without a session; its answer."""
    client.send(fetch_request(topic, offset, partition=partition, version=version, **changes))
    return client.receive().responses[0].partitions[0]


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    version: int = 11,
    max_bytes: int = 1 << 20,
    **changes: Any,
) -> Any:
    """A Fetch of one partition."""
    import datetime

    from kio.static.primitive import i32Timedelta

    wait_ms = changes.pop("max_wait_ms", 0)
    current_leader_epoch = changes.pop("current_leader_epoch", -1)
    values: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": i32Timedelta.parse(datetime.timedelta(milliseconds=wait_ms)),
        "min_bytes": 1,
        "max_bytes": 1 << 26,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": current_leader_epoch,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": max_bytes,
                    }
                ],
            }
        ],
        "forgotten_topics_data": (),
        "rack_id": "",
    }
    return request(1, version, **(values | changes))


def topic_id_of(client: RawClient, name: str) -> UUID:
    """The id of a topic."""
    (topic,) = client.call(request(3, 12, topics=[{"topic_id": None, "name": name}])).topics
    found: UUID = topic.topic_id
    return found


def fetch_by_id(
    version: int,
    *topic_ids: UUID,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[UUID, ...] = (),
    max_wait_ms: int = 0,
) -> Any:
    """A Fetch of the first partitions of topics that are called by their ids, from their beginnings."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    known: dict[str, Any] = {
        "max_wait": duration(max_wait_ms),
        "min_bytes": 1,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic_id": each, "partitions": [partition]} for each in topic_ids],
        "forgotten_topics_data": [{"topic_id": each, "partitions": [0]} for each in forgotten],
    }
    return build_known(request_class(1, version), known | ({"replica_id": -1} if version < 15 else {}))


__all__ = ["RawClient", "batch", "build", "create_topic", "encode", "fetch", "produce", "request"]
