"""Injected faults on the wire: what a client of the instance sees, and that its neighbour sees nothing."""

import asyncio
import sys
import time
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.injected_faults import FaultKind, InjectedFault
from contracts.names import physical_name
from gateway.causes import DisconnectCause
from gateway.config import Timeouts
from tests.scenarios.fake_broker import FakeBroker, Received
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, instance_spec, running_gateway, until
from wire.api_table import ApiKey
from wire.batch import Record, build_batch
from wire.build import build, response
from wire.codec import duration, framed_request, request_class

NOT_LEADER = ErrorCode.not_leader_or_follower


def fault(kind: FaultKind, lasts_ms: int = 60_000, **changes: Any) -> InjectedFault:
    now_ms = time.time_ns() // 1_000_000
    fields = {
        "id": f"f{time.monotonic_ns()}",
        "kind": kind,
        "begins_at_ms": now_ms,
        "ends_at_ms": now_ms + lasts_ms,
    }
    return InjectedFault(**(fields | changes))


def batch(size: int = 10, **changes: int) -> bytes:
    return bytes(build_batch([Record(0, 1, None, b"v" * size)], **changes))


def produce(*records: bytes, acks: int = -1, version: int = 7) -> Any:
    """One partition for each of the batches."""
    partitions = [{"index": index, "records": one} for index, one in enumerate(records)]
    return build(
        request_class(ApiKey.PRODUCE, version),
        {
            "acks": acks,
            "timeout": duration(1000),
            "topic_data": [{"name": "t", "partition_data": partitions}],
        },
    )


def fetch(version: int, **fields: Any) -> Any:
    asked = [{"topic": "t", "partitions": [{"partition": 0}, {"partition": 1}]}]
    known = {"replica_id": -1, "topics": asked, "session_epoch": -1} | fields
    return build(request_class(ApiKey.FETCH, version), known)


def metadata() -> Any:
    return build(request_class(ApiKey.METADATA, 1), {"topics": None})


def acknowledge(broker: FakeBroker) -> None:
    """Have every Produce acknowledged, partition by partition."""

    def answer(received: Received) -> Any:
        topics = [
            {
                "name": topic.name,
                "partition_responses": [
                    {"index": one.index, "base_offset": 5} for one in topic.partition_data
                ],
            }
            for topic in received.request.topic_data
        ]
        return response(ApiKey.PRODUCE, received.api_version, responses=topics)

    broker.intercept(ApiKey.PRODUCE, answer)


def errors(answer: Any) -> dict[int, ErrorCode]:
    """By partition, of a Produce answer."""
    return {one.index: one.error_code for topic in answer.responses for one in topic.partition_responses}


def hits(gateway: RunningGateway, instance_id: str) -> dict[str, int]:
    return dict(gateway.gateway.worker.served[instance_id].fault_hits)


async def test_latency_holds_requests_back_and_ends_with_the_fault(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    slow, neighbour = await gateway.client(A), await gateway.client(B)
    gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=10_000),))
    slow.send(metadata())
    for _ in range(20):
        await neighbour.call(metadata())
    assert len(broker.of(ApiKey.METADATA)) == 20, "the held back request has not gone up"
    assert hits(gateway, A) == {"latency": 1} and hits(gateway, B) == {}
    gateway.change(A, injected_faults=())
    await slow.frame()  # at once: ending a fault does not wait for those it holds
    assert len(broker.of(ApiKey.METADATA)) == 21


async def test_requests_that_came_together_wait_together(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=300),))
    requests = [framed_request(metadata(), number, "c") for number in range(400)]
    client.writer.write(b"".join(requests))
    for _ in requests:
        await client.frame(10.0)
    assert hits(gateway, A)["latency"] < 20, "one delay for what was read at once, not one for each"
    assert [one.correlation_id for one in broker.of(ApiKey.METADATA)] == list(range(400))


async def test_latency_of_one_api_leaves_the_others_alone(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    client = await gateway.client(A)
    acknowledge(broker)
    apis = (int(ApiKey.PRODUCE),)
    gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=10_000, apis=apis),))
    await client.call(metadata())
    client.send(produce(batch()))
    await until(lambda: hits(gateway, A) == {"latency": 1})
    assert broker.of(ApiKey.PRODUCE) == []


async def test_a_held_back_connection_costs_no_memory_and_is_not_taken_for_a_slow_client(
    broker: FakeBroker,
) -> None:
    """Eight megabytes are sent while the request in front is held: they stay in the kernel."""
    timeouts = Timeouts(first_byte_ms=100, frame_ms=100, idle_ms=100, drain_ms=100)
    async with running_gateway(broker.port, instance_spec(A), timeouts=timeouts) as gateway:
        client = await gateway.client(A)
        gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=10_000),))
        client.writer.write(framed_request(produce(batch(8_000_000)), 1, "c"))
        await until(lambda: hits(gateway, A) == {"latency": 1})
        worker = gateway.gateway.worker
        (connection,) = worker.served[A].connections
        ticks = worker.now_ms
        await until(lambda: worker.now_ms - ticks > 1_500)
        assert connection.requests.unhandled is not None and len(connection.requests.unhandled) <= 64 * 1024
        assert not connection.closed and broker.of(ApiKey.PRODUCE) == []
        acknowledge(broker)
        gateway.change(A, injected_faults=())
        await client.frame()


async def test_what_is_held_back_is_bounded_and_given_back(
    broker: FakeBroker, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be more goes its way at once: a fault is not to take the worker's memory."""
    monkeypatch.setattr("gateway.session.fault_marks.HELD_BACK_BYTES_MAX", 200)
    served = gateway.gateway.worker.served[A]
    first, second, third = [await gateway.client(A) for _ in range(3)]
    gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=10_000),))
    frame = framed_request(metadata(), 1, "c" * 100)
    first.writer.write(frame)
    await until(lambda: served.held_back_bytes == len(frame))
    second.writer.write(frame)
    await second.frame()
    first.close()
    gateway.change(A, injected_faults=())  # who is held back is read from again, and found gone
    await until(lambda: gateway.connections(A) == 2 and served.held_back_bytes == 0)
    gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=10_000),))
    third.writer.write(frame)
    await until(lambda: served.held_back_bytes == len(frame))
    served.cut(DisconnectCause.INSTANCE_SUSPENDED)
    assert served.held_back_bytes == 0


async def test_throttling_is_told_and_leaves_the_connection_unread(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    client, neighbour = await gateway.client(A), await gateway.client(B)
    acknowledge(broker)
    gateway.change(A, injected_faults=(fault(FaultKind.THROTTLING, delay_ms=9_000),))
    assert (await client.call(produce(batch()))).throttle_time.total_seconds() == 9
    client.send(metadata())
    assert (await neighbour.call(produce(batch()))).throttle_time.total_seconds() == 0
    (connection,) = gateway.gateway.worker.served[A].connections
    await until(lambda: connection.session.requests.is_held_back)
    gateway.change(A, injected_faults=())
    await client.frame()
    assert (await client.call(produce(batch()))).throttle_time.total_seconds() == 0


@pytest.mark.parametrize("version", [4, 11])
async def test_a_lost_leader_answers_nobody(
    broker: FakeBroker, gateway: RunningGateway, version: int
) -> None:
    client, neighbour = await gateway.client(A), await gateway.client(B)
    acknowledge(broker)
    gateway.change(A, injected_faults=(fault(FaultKind.LEADER_LOSS),))
    assert errors(await client.call(produce(batch(), batch()))) == {0: NOT_LEADER, 1: NOT_LEADER}
    fetched = await client.call(fetch(version))
    assert [one.error_code for topic in fetched.responses for one in topic.partitions] == [NOT_LEADER] * 2
    topics = [{"name": "t", "partitions": [{"partition_index": 3}]}]
    asked = build(request_class(ApiKey.LIST_OFFSETS, 5), {"replica_id": -1, "topics": topics})
    offsets = await client.call(asked)
    assert [(one.name, one.partitions[0].error_code) for one in offsets.topics] == [("t", NOT_LEADER)]
    await client.call(metadata())
    assert {one.api_key for one in broker.received if not one.is_own} == {ApiKey.METADATA}
    assert errors(await neighbour.call(produce(batch()))) == {0: ErrorCode.none}


async def test_a_fetch_session_is_asked_to_begin_anew(gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.LEADER_LOSS),))
    answer = await client.call(fetch(11, topics=[], session_id=77, session_epoch=3))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found


async def test_only_batches_above_the_size_are_too_large(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    acknowledge(broker)
    gateway.change(A, injected_faults=(fault(FaultKind.MESSAGE_TOO_LARGE, above_bytes=500),))
    answer = await client.call(produce(batch(10), batch(600), batch(20)))
    assert errors(answer) == {0: ErrorCode.none, 1: ErrorCode.message_too_large, 2: ErrorCode.none}
    (up,) = broker.of(ApiKey.PRODUCE)
    (topic,) = up.request.topic_data
    assert topic.name == physical_name(A, "t")
    assert [one.index for one in topic.partition_data] == [0, 2]
    assert hits(gateway, A) == {"message_too_large": 1}


async def test_refused_batches_are_refused_beside_lists_of_addresses(broker: FakeBroker) -> None:
    acknowledge(broker)
    spec = instance_spec(A, topic_whitelists={"t": ("10.9.8.0/24",)})
    async with running_gateway(broker.port, spec) as gateway:
        client = await gateway.client(A)
        gateway.change(A, injected_faults=(fault(FaultKind.MESSAGE_TOO_LARGE, above_bytes=500),))
        answer = await client.call(produce(batch(10), batch(600)))
    assert errors(answer) == {0: ErrorCode.topic_authorization_failed, 1: ErrorCode.message_too_large}
    assert broker.of(ApiKey.PRODUCE) == []


async def test_corrupt_checksums_are_answered_in_every_version(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.CORRUPT_CHECKSUM),))
    for version in range(3, 9):
        assert errors(await client.call(produce(batch(), version=version))) == {0: ErrorCode.corrupt_message}
    assert broker.of(ApiKey.PRODUCE) == []


async def test_a_large_batch_is_refused_whole(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.CORRUPT_CHECKSUM),))
    for _ in range(3):
        answer = await client.call(produce(batch(5_000_000)))
        assert errors(answer) == {0: ErrorCode.corrupt_message}
    assert gateway.gateway.worker.served[A]._collected_bytes == 0


async def test_without_acknowledgements_a_refusal_ends_the_connection(gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.CORRUPT_CHECKSUM),))
    client.send(produce(batch(), acks=0))
    assert await client.ended()
    assert gateway.closed(A) == {"fault_injected": 1}


async def test_what_was_sent_behind_a_refused_batch_is_refused_after_the_fault_too(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    client = await gateway.client(A)
    acknowledge(broker)
    of_producer = {"producer_id": 9, "producer_epoch": 0}
    gateway.change(A, injected_faults=(fault(FaultKind.LEADER_LOSS),))
    first, second = (batch(base_sequence=sequence, **of_producer) for sequence in (0, 1))
    assert errors(await client.call(produce(first))) == {0: NOT_LEADER}
    gateway.change(A, injected_faults=())
    assert errors(await client.call(produce(second))) == {0: NOT_LEADER}
    assert errors(await client.call(produce(first))) == {0: ErrorCode.none}
    assert errors(await client.call(produce(second))) == {0: ErrorCode.none}
    assert len(broker.of(ApiKey.PRODUCE)) == 2


async def _is_reset(client: FrameClient, request: Any) -> None:
    client.send(request)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await client.frame()


async def test_resets_lose_requests_and_answers(broker: FakeBroker, gateway: RunningGateway) -> None:
    neighbour = await gateway.client(B)
    acknowledge(broker)
    gateway.change(A, injected_faults=(fault(FaultKind.CONNECTION_RESET),))
    for _ in range(20):
        await _is_reset(await gateway.client(A), produce(batch()))
        await neighbour.call(metadata())
    assert gateway.closed(A) == {"fault_injected": 20} and gateway.closed(B) == {}
    arrived = len(broker.of(ApiKey.PRODUCE))
    assert 0 < arrived < 20, "some were lost on their way, of some the answer"
    assert hits(gateway, A) == {"connection_reset": 20}


async def test_everybody_is_reset_once(gateway: RunningGateway) -> None:
    clients = [await gateway.client(A) for _ in range(5)]
    neighbour = await gateway.client(B)
    for client in (*clients, neighbour):
        await client.call(metadata())
    gateway.change(A, injected_faults=(fault(FaultKind.CONNECTION_RESET, once=True),))
    for client in clients:
        assert await client.ended()
    again = await gateway.client(A)
    gateway.change(A, revision=3)
    await again.call(metadata())
    await neighbour.call(metadata())
    assert gateway.closed(A) == {"fault_injected": 5} and hits(gateway, A) == {"connection_reset": 5}


async def test_a_fault_ends_by_itself_when_nobody_tells_any_more(gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    gateway.change(A, injected_faults=(fault(FaultKind.LEADER_LOSS, lasts_ms=1_000),))
    assert errors(await client.call(produce(batch()))) == {0: NOT_LEADER}
    served = gateway.gateway.worker.served[A]
    await until(lambda: served.faults is not None and served.faults.kinds == ())
    answer = await client.call(fetch(11))
    assert [one for topic in answer.responses for one in topic.partitions] == [], "the broker's own"


async def test_without_a_fault_a_request_asks_once_and_calls_nothing(broker: FakeBroker) -> None:
    """What is called for a Produce is the same, counted, before a fault and when all is over."""
    acknowledge(broker)
    async with running_gateway(broker.port, instance_spec(A)) as gateway:
        client = await gateway.client(A)
        frame = framed_request(produce(batch()), 7, "c")

        async def calls() -> int:
            least = []
            for _ in range(10):
                counted: Counter[str] = Counter()

                def count(of: FrameType, event: str, _: Any, seen: Counter[str] = counted) -> None:
                    where = of.f_code.co_filename
                    if (
                        event == "call"
                        and ("/gateway/" in where or "/wire/" in where)
                        and "tests" not in where
                    ):
                        seen["all"] += 1
                        seen["faults"] += "inject" in where or "fault" in of.f_code.co_name

                client.writer.write(frame)
                sys.setprofile(count)
                await client.frame()
                sys.setprofile(None)
                assert not counted["faults"]
                least.append(counted["all"])
            return min(least)

        before = await calls()
        gateway.change(A, injected_faults=(fault(FaultKind.LATENCY, delay_ms=1),))
        gateway.change(A, injected_faults=())
        served = gateway.gateway.worker.served[A]
        assert served.faults is not None
        served.end_faults(2**60, 2**60)
        assert served.faults is None and served.passes_produce
        assert await calls() == before > 0
