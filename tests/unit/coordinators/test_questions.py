"""Questions to the coordinators of other brokers: what one tenant asks never costs another its answer."""

import asyncio
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.add_partitions_to_txn.v4 import response as answered
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from broker.coordinators.peers import Peers
from broker.coordinators.verification import Coordinated, Verifier
from broker.requests.apis import APIS
from broker.transactions.messages import Producer
from broker.transactions.state import TopicPartition
from contracts.names import physical_name
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from tests.unit.coordinators.world import until
from wire.api_table import ApiKey
from wire.client import ClientSession
from wire.codec import decode, parse_request_header, request_class

OTHER = 2
ADDS = ApiKey.ADD_PARTITIONS_TO_TXN
NOISY, QUIET = physical_name("iaaaaaaaaaaa", ""), physical_name("ibbbbbbbbbbb", "")


class OtherBroker:
    """Takes requests as a broker's listener does: what is beyond a bound closes the connection."""

    is_closed = False

    def __init__(self) -> None:
        self.requests: list[Counter[str]] = []
        """Transactions of each scope."""

    async def call(self, request: Any, **_options: Any) -> Any:
        frame = ClientSession("x").request(request)[4:]
        await asyncio.sleep(0)
        frame_bytes_max = APIS[ADDS].frame_bytes_max
        if frame_bytes_max is not None and len(frame) > frame_bytes_max:
            raise KafkaUnavailable("closed: the frame is too large")
        header = parse_request_header(frame, flexible=True)
        decode(request_class(ADDS, 4), bytes(frame), header.body_at)
        ids = [each.transactional_id for each in request.transactions]
        self.requests.append(Counter(each[: len(QUIET)] for each in ids))
        if any(each.startswith(f"{NOISY}fails") for each in ids):
            raise KafkaUnavailable("closed")
        results = tuple(_result(each) for each in request.transactions)
        return answered.AddPartitionsToTxnResponse(
            throttle_time=i32Timedelta.parse(timedelta(0)),
            error_code=ErrorCode.none,
            results_by_transaction=results,
        )


def _result(asked: Any) -> answered.AddPartitionsToTxnResult:
    topics = tuple(
        answered.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                answered.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=ErrorCode.none
                )
                for index in topic.partitions
            ),
        )
        for topic in asked.topics
    )
    return answered.AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)


class Asking:
    """A leader whose coordinators are all on another broker."""

    def __init__(self) -> None:
        self.other = OtherBroker()
        self.is_reachable = True
        address = object()
        state = SimpleNamespace(leader=OTHER)
        metadata = SimpleNamespace(brokers={OTHER: address}, partition=lambda *_: state)

        async def connect(_broker_id: int) -> tuple[object, KafkaConnection]:
            if not self.is_reachable:
                raise KafkaUnavailable("nobody is there")
            return address, cast(KafkaConnection, self.other)

        peers = cast(Peers, SimpleNamespace(metadata=metadata, connect=connect))
        coordinators = SimpleNamespace(topic="__transaction_state", partition_of=lambda _key: 0)
        self.verifier = Verifier(1, cast(Coordinated, coordinators), peers)
        self.told: dict[str, list[ErrorCode]] = {}

    def add(self, transactional_id: str) -> None:
        told = self.told.setdefault(transactional_id, [])
        topic = f"{transactional_id[: len(QUIET)]}t"
        self.verifier.add(transactional_id, Producer(7, 0), TopicPartition(topic, 0), told.append)

    async def all_told(self) -> None:
        await until(lambda: all(self.told.values()))


@pytest.mark.parametrize(("ids", "id_chars"), [(40, 32_000), (5_300, 20)])
async def test_one_tenants_questions_never_close_the_others_connection(ids: int, id_chars: int) -> None:
    asking = Asking()
    asking.add(f"{NOISY}first")
    for number in range(ids):
        asking.add(f"{NOISY}{number:06}".ljust(id_chars, "x"))
    asking.add(f"{QUIET}ok")
    await asking.all_told()
    assert set(map(tuple, asking.told.values())) == {(ErrorCode.none,)}
    assert len(asking.other.requests) > 1 and asking.other.requests[0][QUIET] == 1, "its turn comes first"


async def test_a_request_that_fails_fails_its_own_questions() -> None:
    asking = Asking()
    asking.add(f"{NOISY}fails".ljust(32_000, "x"))
    for number in range(5):
        asking.add(f"{NOISY}{number}".ljust(32_000, "x"))
    await asking.all_told()
    errors = [error for told in asking.told.values() for error in told]
    assert errors == [*[ErrorCode.not_enough_replicas] * 2, *[ErrorCode.none] * 4], "two go in one request"


async def test_a_broker_that_is_away_answers_nobody() -> None:
    asking = Asking()
    asking.is_reachable = False
    for number in range(5):
        asking.add(f"{NOISY}{number}".ljust(32_000, "x"))
    asking.add(f"{QUIET}ok")
    await asking.all_told()
    assert set(map(tuple, asking.told.values())) == {(ErrorCode.not_enough_replicas,)}
    assert not asking.other.requests
