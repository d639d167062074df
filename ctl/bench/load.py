"""Load on raw sockets with prebuilt frames: the client costs as little as it can, the same for every peer.

Versions are those that clients of today agree on with brokers of Kafka 2.x; where a topic is given by its id,
the newest of Produce and Fetch.
"""

import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import kio.schema.api_versions.v0.request as api_versions_v0
import kio.schema.create_topics.v4.request as create_topics_v4
import kio.schema.delete_records.v1.request as delete_records_v1
import kio.schema.fetch.v11.request as fetch_v11
import kio.schema.metadata.v4.request as metadata_v4
import kio.schema.produce.v8.request as produce_v8
import kio.schema.sasl_authenticate.v1.request as sasl_authenticate_v1
import kio.schema.sasl_handshake.v1.request as sasl_handshake_v1

from wire.api_table import ApiKey
from wire.batch import Record, build_batch
from wire.build import build
from wire.client import plain_token
from wire.codec import decode_response, duration, framed_request, request_class

# kio types its fields with refined integers; plain ones are what it encodes
_API_VERSIONS: Any = api_versions_v0
_CREATE_TOPICS: Any = create_topics_v4
_DELETE_RECORDS: Any = delete_records_v1
_FETCH: Any = fetch_v11
_METADATA: Any = metadata_v4
_PRODUCE: Any = produce_v8
_SASL_AUTHENTICATE: Any = sasl_authenticate_v1
_SASL_HANDSHAKE: Any = sasl_handshake_v1

_SIZE: Final = struct.Struct(">i")
_VERSION: Final = struct.Struct(">6xh")
"""Of a framed request."""
_ASKED_BY_NAME: Final = 12
PRODUCE_NEWEST: Final = 13
FETCH_NEWEST: Final = 18
RECORD_BYTES: Final = 1000
CLIENT_ID: Final = "bench"
TIMEOUT_S: Final = 60.0
_SCRATCH_BYTES: Final = 64 * 1024 * 1024


class Workload(NamedTuple):
    """A prebuilt batch of 1 KB records and how many records it holds."""

    batch: bytes
    records: int


def workload(batch_bytes: int) -> Workload:
    """A batch of about `batch_bytes`; random values, so nothing compresses by accident."""
    count = max(1, batch_bytes // (RECORD_BYTES + 20))
    now_ms = time.time_ns() // 1_000_000
    records = [Record(0, now_ms, None, os.urandom(RECORD_BYTES)) for _ in range(count)]
    return Workload(bytes(build_batch(records)), count)


_local: Final = threading.local()


def _scratch() -> bytearray:
    """One receive buffer for each thread: a client is used by the thread that made it."""
    if not hasattr(_local, "buffer"):
        _local.buffer = bytearray(_SCRATCH_BYTES)
    return cast("bytearray", _local.buffer)


class Endpoint(NamedTuple):
    """A port, of this machine where nothing else is said, and the secret that it wants."""

    port: int
    secret: str | None = None
    host: str = "127.0.0.1"
    is_tls: bool = False
    client_id: str = CLIENT_ID
    """What its clients call themselves."""


def _unchecked() -> ssl.SSLContext:
    """Whoever answers is believed: what is measured is this machine's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


Target = int | Endpoint


class Client:
    """One blocking connection."""

    def __init__(self, target: Target, *, answer_bytes_max: int | None = None) -> None:
        """`answer_bytes_max`: read answers into a buffer of its own, for one of many."""
        port, secret, host, is_tls, self._client_id = Endpoint(target) if isinstance(target, int) else target
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_tls:
            self.socket = _unchecked().wrap_socket(self.socket)
        own = None if answer_bytes_max is None else bytearray(answer_bytes_max)
        self._scratch = memoryview(_scratch() if own is None else own)
        if secret is not None:
            self._log_in(secret)

    def _log_in(self, secret: str) -> None:
        self.call(_SASL_HANDSHAKE.SaslHandshakeRequest(mechanism="PLAIN"))
        answer = self.call(_SASL_AUTHENTICATE.SaslAuthenticateRequest(auth_bytes=plain_token(secret)))
        if answer.error_code != 0:
            raise RuntimeError(f"the secret was refused: {answer.error_message}")

    def exchange(self, frame: bytes) -> int:
        """Send one framed request, read its answer into the scratch buffer; returns the answer's size."""
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> int:
        """Read one answer into the scratch buffer, without its length prefix."""
        self._fill(self._scratch[:4])
        (size,) = _SIZE.unpack_from(self._scratch)
        if not 0 <= size <= len(self._scratch):
            raise ConnectionError(f"an answer of {size} bytes")
        self._fill(self._scratch[:size])
        return int(size)

    def answer(self, size: int) -> bytes:
        """The answer read last."""
        return bytes(self._scratch[:size])

    def _fill(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            size = self.socket.recv_into(view[at:])
            if size == 0:
                raise ConnectionError("the peer closed the connection")
            at += size

    def call(self, request: Any) -> Any:
        """Send a kio request, return its decoded response."""
        size = self.exchange(framed_request(request, 1, self._client_id))
        return decode_response(self.answer(size), request.__api_key__, request.__version__)[1]


@contextmanager
def connected(target: Target) -> Iterator[Client]:
    """A client that is closed at the end."""
    client = Client(target)
    try:
        yield client
    finally:
        client.socket.close()


def create_topic(target: Target, name: str, partitions: int = 1) -> None:
    """Create a topic of small segments and wait until it can be used."""
    topic = _CREATE_TOPICS.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        assignments=(),
        configs=(_CREATE_TOPICS.CreatableTopicConfig(name="segment.bytes", value=str(64 * 2**20)),),
    )
    with connected(target) as client:
        answer = client.call(
            _CREATE_TOPICS.CreateTopicsRequest(topics=(topic,), timeout=duration(10_000), validate_only=False)
        )
    if answer.topics[0].error_code != 0:
        raise RuntimeError(f"topic {name}: {answer.topics[0].error_message}")


def delete_all_records(target: Target, topic: str, partitions: int = 1) -> None:
    """Free what a round has stored, so that no benchmark fills the machine."""
    delete_records_of(target, topic, range(partitions))


def delete_records_of(target: Target, topic: str, partitions: Iterable[int]) -> None:
    """Delete all records of the partitions that one broker leads."""
    every = tuple(
        _DELETE_RECORDS.DeleteRecordsPartition(partition_index=number, offset=-1) for number in partitions
    )
    request = _DELETE_RECORDS.DeleteRecordsRequest(
        topics=(_DELETE_RECORDS.DeleteRecordsTopic(name=topic, partitions=every),), timeout=duration(30_000)
    )
    with connected(target) as client:
        answer = client.call(request)
    if any(part.error_code != 0 for part in answer.topics[0].partitions):
        raise RuntimeError(f"records of {topic} could not be deleted")


def topic_id(target: Target, topic: str) -> UUID:
    """What newer versions call a topic."""
    asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    with connected(target) as client:
        answer = client.call(build(request_class(ApiKey.METADATA, _ASKED_BY_NAME), asked))
    return cast(UUID, answer.topics[0].topic_id)


def produce_frames(
    topic: str | UUID, load: Workload, partitions: int, acks: int = -1, client_id: str = CLIENT_ID
) -> list[bytes]:
    """One framed Produce request for each partition; of the newest version where the topic's id is given."""
    return [_produce_frame(topic, partition, load.batch, acks, client_id) for partition in range(partitions)]


def _produce_frame_by_id(topic: UUID, partition: int, batch: bytes, acks: int, client_id: str) -> bytes:
    data = {"topic_id": topic, "partition_data": [{"index": partition, "records": batch}]}
    known = {"acks": acks, "timeout": duration(30_000), "topic_data": [data]}
    return framed_request(build(request_class(ApiKey.PRODUCE, PRODUCE_NEWEST), known), 7, client_id)


def _produce_frame(topic: str | UUID, partition: int, batch: bytes, acks: int, client_id: str) -> bytes:
    if isinstance(topic, UUID):
        return _produce_frame_by_id(topic, partition, batch, acks, client_id)
    data = _PRODUCE.TopicProduceData(
        name=topic, partition_data=(_PRODUCE.PartitionProduceData(index=partition, records=batch),)
    )
    request = _PRODUCE.ProduceRequest(
        transactional_id=None, acks=acks, timeout=duration(30_000), topic_data=(data,)
    )
    return framed_request(request, 7, client_id)


def produce(target: Target, frames: list[bytes], total_bytes: int, *, window: int, check: bool = True) -> int:
    """Send frames in turn with at most `window` unanswered; returns the bytes carried.

    `check` looks at a first answer, which a floor's would not stand.
    """
    sent = answered = carried = 0
    with connected(target) as client:
        if check:
            check_produced(client, frames[0])
        while carried < total_bytes:
            frame = frames[sent % len(frames)]
            client.socket.sendall(frame)
            sent += 1
            carried += len(frame)
            if sent - answered >= window:
                client.receive()
                answered += 1
        for _ in range(sent - answered):
            client.receive()
    return carried


def produce_answer(client: Client, size: int, version: int = _PRODUCE.ProduceRequest.__version__) -> Any:
    """The answer read last, to one of `produce_frames`."""
    return decode_response(client.answer(size), ApiKey.PRODUCE, version)[1]


def check_produced(client: Client, frame: bytes) -> None:
    """A first request whose answer is looked at, so that no round measures refusals."""
    answer = produce_answer(client, client.exchange(frame), *_VERSION.unpack_from(frame))
    code = answer.responses[0].partition_responses[0].error_code
    if code != 0:
        raise RuntimeError(f"produce was refused with error {code}")


def consume(
    target: Target,
    topic: str | UUID,
    load: Workload,
    total_bytes: int,
    *,
    fetch_bytes: int,
    stored: int,
    partitions: Sequence[int] = (0,),
) -> int:
    """Fetch partitions, each `stored` batches long, again and again; returns the bytes carried.

    `fetch_bytes` is of each partition of an answer.
    """
    per_fetch = max(1, fetch_bytes // len(load.batch))
    step = per_fetch * load.records
    offsets = range(0, max(1, stored - per_fetch) * load.records, step)
    size = per_fetch * len(load.batch)
    frames = [fetch_frame(topic, offset, size, partitions) for offset in offsets]
    carried = turn = 0
    with connected(target) as client:
        while carried < total_bytes:
            size = client.exchange(frames[turn % len(frames)])
            if size < len(load.batch) * len(partitions):
                raise RuntimeError(f"a fetch answered {size} bytes instead of records")
            carried += size
            turn += 1
    return carried


def fetch_frame(
    topic: str | UUID, offset: int, size: int, partitions: Sequence[int] = (0,), client_id: str = CLIENT_ID
) -> bytes:
    """A framed Fetch of so many bytes of each of these partitions; as `produce_frames` by id."""
    if isinstance(topic, UUID):
        return _fetch_frame_by_id(topic, offset, size, partitions, client_id)
    parts = tuple(
        _FETCH.FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=size,
        )
        for number in partitions
    )
    request = _FETCH.FetchRequest(
        replica_id=-1,
        max_wait=duration(500),
        min_bytes=1,
        max_bytes=size * len(parts),
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        forgotten_topics_data=(),
        topics=(_FETCH.FetchTopic(topic=topic, partitions=parts),),
        rack_id="",
    )
    return framed_request(request, 7, client_id)


def _fetch_frame_by_id(
    topic: UUID, offset: int, size: int, partitions: Sequence[int], client_id: str
) -> bytes:
    asked = [
        {"partition": number, "fetch_offset": offset, "partition_max_bytes": size} for number in partitions
    ]
    known = {
        "max_wait": duration(500),
        "min_bytes": 1,
        "max_bytes": size * len(partitions),
        "session_epoch": -1,
        "topics": [{"topic_id": topic, "partitions": asked}],
    }
    return framed_request(build(request_class(ApiKey.FETCH, FETCH_NEWEST), known), 7, client_id)


def metadata_frame(topic: str) -> bytes:
    """A framed Metadata request for one topic."""
    topics = (_METADATA.MetadataRequestTopic(name=topic),)
    return framed_request(
        _METADATA.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 1, "bench"
    )


def paced_produce(
    target: Target, frame: bytes, rate_bytes_per_s: float, seconds: float, *, window: int
) -> float:
    """Offer a rate for some seconds with at most `window` unanswered; returns delivered / offered."""
    sent = answered = 0
    with connected(target) as client:
        started = time.perf_counter()
        while (elapsed_s := time.perf_counter() - started) < seconds:
            ahead_bytes = sent * len(frame) - elapsed_s * rate_bytes_per_s
            if ahead_bytes > 0:
                time.sleep(ahead_bytes / rate_bytes_per_s)
                continue
            client.socket.sendall(frame)
            sent += 1
            if sent - answered >= window:
                client.receive()
                answered += 1
        for _ in range(sent - answered):
            client.receive()
        return sent * len(frame) / (time.perf_counter() - started) / rate_bytes_per_s


def latencies_ms(target: Target, frame: bytes, count: int) -> list[float]:
    """Round-trip times of one request at a time."""
    times = []
    with connected(target) as client:
        for _ in range(count):
            started = time.perf_counter_ns()
            client.exchange(frame)
            times.append((time.perf_counter_ns() - started) / 1e6)
    return times


def connections_per_s(target: Target, topic: str, seconds: float) -> float:
    """Connect, ask ApiVersions and Metadata as clients do first, close; one after another."""
    versions, metadata = (
        framed_request(_API_VERSIONS.ApiVersionsRequest(), 1, "bench"),
        metadata_frame(topic),
    )
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < seconds:
        with connected(target) as client:
            client.exchange(versions)
            client.exchange(metadata)
        count += 1
    return count / (time.perf_counter() - started)
