"""A host of a gateway's session without socket, loop or clock: bytes in, bytes out, a broker that answers.

What a worker does with sockets is done here with byte strings, so that the same streams can come in pieces of
any size. Work that waits runs at once: nothing of it suspends, but for what waits for room at the broker.
"""

import contextlib
import struct
import types
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final
from uuid import UUID

from contracts.access_orders import AccessAnswer, AccessOrder
from contracts.charging import ChargeRequest
from contracts.names import physical_name
from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Limits, Listener
from contracts.users import KafkaUser, SecurityProtocol
from gateway.apis import APIS
from gateway.mutation_bucket import MutationBucket
from gateway.otlp import read_metrics
from gateway.rules.client_metrics import ClientMetrics
from gateway.rules.logins import Logins
from gateway.rules.topic_ids import TopicIds
from gateway.served import ServedInstance
from gateway.session.call import Outcome, Pending
from gateway.session.conversation import Certificate
from gateway.session.ordering import Exchange
from gateway.session.session import Session
from gateway.session.surroundings import VersionsKey
from gateway.shared_buckets import SharedBuckets
from traffic.mutation_rate import MutationRate
from traffic.relayed import RelayedFlows
from traffic.turns import Turns
from wire.api_table import GROUP_VERSION, ApiKey, Served
from wire.build import response
from wire.codec import decode, framed_response, is_flexible, parse_request_header, request_class

INSTANCE: Final = "iaaaaaaaaaaa"
CLIENT: Final = "192.0.2.7"
NODE_ID: Final = 1
RECORDS: Final = bytes(range(256)) * 40
"""What a fetch gets; the names of no instance are in it."""


def served_instance(
    topic_whitelists: Mapping[str, tuple[str, ...]] | None = None,
    request_bytes_max: int = 1_000_000,
    *,
    users: tuple[KafkaUser, ...] = (),
    login_ms_max: int = 0,
) -> ServedInstance:
    """An instance with one broker."""
    listeners = [
        Listener(
            node_id=NODE_ID,
            bind_host="127.0.0.1",
            advertised_host="gw.example",
            port=port,
            security_protocol=protocol,
        )
        for port, protocol in enumerate(SecurityProtocol, 19092)
    ]
    spec = InstanceSpec(
        revision=1,
        instance_id=INSTANCE,
        tenant="default",
        name="test",
        state=InstanceState.ACTIVE,
        cluster_id="c1",
        produce_rate_bytes_per_s=10**9,
        consume_rate_bytes_per_s=10**9,
        capacity_bytes=10**10,
        allow_all=True,
        listeners=tuple(listeners),
        users=users,
        limits=Limits(request_bytes_max=request_bytes_max, login_ms_max=login_ms_max),
        topic_whitelists=dict(topic_whitelists or {}),
    )
    logins = Logins(b"secret", bytes, lambda: 0)
    metrics = ClientMetrics(Random(1).randbytes, read_metrics)
    return ServedInstance(spec, Turns().join(INSTANCE), logins, metrics, now_ms=0)


class Surroundings:
    """Host, cluster and deps in one: everything is known, nothing takes time."""

    def __init__(self) -> None:
        broker = BrokerAddress(node_id=NODE_ID, host="127.0.0.1", port=9092)
        self.spec = ClusterSpec(revision=1, cluster_id="c1", brokers=(broker,))
        self.encoded_versions: dict[VersionsKey, bytes] = {}
        self.answered: list[int] = []
        """Correlation ids of what was answered without a broker."""
        self.charges: list[ChargeRequest] = []
        self.spent_us = 0
        self.relay: RelayedFlows | None = None
        self.topics: dict[str, int] = {}
        self.time_ms = 0
        self.mutations: MutationBucket
        self.topic_ids = TopicIds()
        """Whatever is asked for is `orders`."""
        self.access_orders: list[AccessOrder] = []
        self.access_answer = AccessAnswer(revision=1)

    @property
    def cluster(self) -> "Surroundings":
        return self

    def known_versions(self, _node_id: int | None) -> Served:
        return Served({key: row.versions for key, row in APIS.items()}, {GROUP_VERSION: 1})

    def now_ms(self) -> int:
        return self.time_ms

    def turn_is_over(self) -> bool:
        return False

    def throttle_ms(self, _api_key: int) -> int:
        return 0

    def waited(self, _api_key: int, _waited_ns: int) -> None:
        raise AssertionError("nobody waits for a turn here")

    def spends(self, spent_us: int) -> None:
        self.spent_us += spent_us

    def answered_here(self, exchange: Exchange) -> None:
        self.answered.append(exchange.correlation_id)

    async def charge(self, request: ChargeRequest) -> int:
        self.charges.append(request)
        return 0

    async def engine_room(self, cost_us: int) -> None:
        assert self.relay is not None, "only brokers that are not ours have little room"
        came: list[bool] = []
        self.relay.engine_room.wait(cost_us, lambda: came.append(True))
        while not came:
            await _pause()

    async def pause(self, wait_ms: int) -> None:
        self.time_ms += wait_ms

    async def look_up_topics(self, topic_ids: Collection[UUID]) -> None:
        self.topic_ids.learn((each, "orders") for each in topic_ids)

    async def change_access(self, order: AccessOrder) -> AccessAnswer:
        self.access_orders.append(order)
        return self.access_answer

    async def versions(self) -> Served:
        return self.known_versions(NODE_ID)

    async def ask_any(self, request: Any) -> Any:
        raise NotImplementedError(request)

    async def ask_controller(self, request: Any) -> Any:
        if request.__api_key__ == ApiKey.CREATE_PARTITIONS:
            grown = [{"name": topic.name} for topic in request.topics]
            return response(request.__api_key__, request.__version__, results=grown)
        created = [{"name": topic.name, "num_partitions": topic.num_partitions} for topic in request.topics]
        self.topics |= {topic.name: max(1, topic.num_partitions) for topic in request.topics}
        return response(request.__api_key__, request.__version__, topics=created)

    def in_portions(self, _entries: int) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    def changing_partitions(self) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def partition_counts(self) -> dict[str, int]:
        return dict(self.topics)

    async def partitions_of(self, names: Collection[str]) -> dict[str, int]:
        return {name: self.topics[name] for name in names if name in self.topics}


class Frames:
    """Whole frames out of a stream."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        """Those that are complete now, without length prefixes."""
        self._rest += data
        found = []
        while len(self._rest) >= 4:
            (size,) = struct.unpack_from(">i", self._rest)
            if len(self._rest) < 4 + size:
                break
            found.append(self._rest[4 : 4 + size])
            self._rest = self._rest[4 + size :]
        return found

    @property
    def missing(self) -> int:
        """Of the frame that has begun, how much is here."""
        return len(self._rest)


class SessionHost:
    """One session and the two streams it makes. `up` and `down` are all that ever went there."""

    def __init__(
        self,
        served: ServedInstance,
        login_replies: int = 0,
        *,
        splices: bool = False,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAIN,
        relay: RelayedFlows | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.served = served
        self.around = Surroundings()
        self.around.topic_ids = served.topic_ids
        self.around.relay = relay
        self.around.mutations = MutationBucket(
            served,
            SharedBuckets(None, ""),
            lambda limits: MutationRate(limits.controller_mutation_rate_max),
            lambda: self.around.time_ms * 1_000_000,
        )
        self._work: Coroutine[Any, Any, Outcome] | None = None
        """What waits for room at the broker."""
        self.now_ms = 1
        self.session = Session(
            served,
            self.around,
            CLIENT,
            NODE_ID,
            now_ms=0,
            security_protocol=security_protocol,
            relay=relay,
            certificate=certificate,
        )
        self.up = bytearray()
        self.down = bytearray()
        self.spliced = 0
        """Bytes that the session has never seen."""
        self._splices = splices
        self._login_replies = login_replies
        self._from_client = b""
        self._from_broker = b""

    # -- bytes in ------------------------------------------------------------------------------------

    def client_sends(self, data: bytes, *, settles: bool = True) -> None:
        """The client's bytes come; what waits is settled, unless `settles` says no. Raises: ConnectionStop,
        MalformedFrame, NameFault."""
        requests = self.session.requests
        requests.bytes_in += len(data)
        self._from_client += data
        while self._from_client and requests.waits is None and not self.session.is_full:
            if self._splices and (opaque := requests.opaque_bytes()):
                passed = self._from_client[:opaque]
                requests.pass_opaque(len(passed))
                self.up += passed
                self.spliced += len(passed)
                self._from_client = self._from_client[len(passed) :]
                continue
            chunk = requests.stash + self._from_client
            requests.stash = b""
            up: list[Any] = []
            down: list[Any] = []
            try:
                used = requests.receive(memoryview(bytearray(chunk)), self.now_ms * 1_000_000, up, down)
            finally:
                self.down += b"".join(down)
            self._goes_up(b"".join(up))
            self._from_client = chunk[used:]
            if settles:
                self.settle()

    def broker_sends(self, data: bytes) -> None:
        """The broker's bytes come. Raises: ConnectionStop, MalformedFrame."""
        replies = self.session.replies
        self._from_broker += data
        while self._from_broker:
            if self._splices and (opaque := replies.opaque_bytes()):
                passed = self._from_broker[:opaque]
                replies.pass_opaque(len(passed))
                self.down += passed
                self.spliced += len(passed)
                self._from_broker = self._from_broker[len(passed) :]
                continue
            chunk = replies.stash + self._from_broker
            replies.stash = b""
            down: list[Any] = []
            used = replies.receive(memoryview(bytearray(chunk)), down, [])
            self.down += b"".join(down)
            self._from_broker = chunk[used:]
        if self._work is not None:
            self.settle()
        self.client_sends(b"")  # what stood behind a full queue

    def settle(self) -> bool:
        """Do what a request waits for, as far as there is room at the broker; whether there was any."""
        settled = False
        while isinstance(pending := self.session.requests.waits, Pending):
            work, self._work = self._work or pending.later.work(self.around), None
            outcome = _result(work)
            if outcome is None:
                self._work = work
                break
            settled = True
            up: list[Any] = []
            down: list[Any] = []
            try:
                self.session.requests.settle(outcome, up, down)
            finally:
                self.down += b"".join(down)
            self._goes_up(b"".join(up))
        return settled

    def _goes_up(self, data: bytes) -> None:
        if data and self.session.sides.upstream.value == "absent":
            self.session.dials(self._login_replies, now_ms=0)
        self.up += data


@types.coroutine
def _pause() -> Generator[None, None, None]:
    yield


def _result(work: Coroutine[Any, Any, Outcome]) -> Outcome | None:
    """None: it waits for room at the broker."""
    try:
        work.send(None)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    return None


# -- the broker ----------------------------------------------------------------------------------------


def decoded_request(frame: bytes) -> tuple[int, int, int, Any]:
    """(api key, version, correlation id, the request) of a frame without length prefix."""
    api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
    header = parse_request_header(frame, is_flexible(api_key, version))
    return api_key, version, correlation_id, decode(request_class(api_key, version), frame, header.body_at)


def _called(topic: Any) -> dict[str, Any]:
    return {"name": topic.name} if hasattr(topic, "name") else {"topic_id": topic.topic_id}


def _produced(request: Any) -> dict[str, Any]:
    return {
        "responses": [
            {
                **_called(topic),
                "partition_responses": [
                    {"index": one.index, "base_offset": 7} for one in topic.partition_data
                ],
            }
            for topic in request.topic_data
        ]
    }


def _fetched(request: Any) -> dict[str, Any]:
    return {
        "responses": [
            {
                "topic": topic.topic,
                "partitions": [
                    {"partition_index": one.partition, "records": RECORDS} for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _described(request: Any) -> dict[str, Any]:
    names = [topic.name for topic in request.topics or ()] or [physical_name(INSTANCE, "orders")]
    return {
        "brokers": [{"node_id": NODE_ID, "host": "broker.internal", "port": 9092}],
        "topics": [{"name": name, "partitions": [{"leader_id": NODE_ID}]} for name in names],
    }


_KNOWN: Final[dict[int, Callable[[Any], dict[str, Any]]]] = {
    int(ApiKey.PRODUCE): _produced,
    int(ApiKey.FETCH): _fetched,
    int(ApiKey.METADATA): _described,
}


def brokers_reply(frame: bytes) -> bytes:
    """What a broker says to a frame that went up; nothing to a Produce with acks=0."""
    api_key, version, correlation_id, request = decoded_request(frame)
    if api_key == ApiKey.PRODUCE and request.acks == 0:
        return b""
    known = _KNOWN.get(api_key, lambda _: {})(request)
    return framed_response(response(api_key, version, **known), correlation_id)
