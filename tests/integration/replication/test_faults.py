"""Brokers that die, hang and lose data: acknowledged records stay, each once and in order."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.integration.broker.raw import batch, produce, produce_body, request
from tests.integration.replication.cluster import Cluster
from wire.codec import decode_response

Fault = Callable[[int], Awaitable[None]]


async def _produce_through(cluster: Cluster, topic: str, fault: Fault) -> list[bytes]:
    """Produce while the fault happens to the leader; what was acknowledged, in order."""
    producer = AIOKafkaProducer(
        acks="all", enable_idempotence=True, linger_ms=2, request_timeout_ms=3_000, **cluster.security
    )
    await producer.start()
    futures: list[tuple[bytes, Any]] = []
    go_on = True

    async def send() -> None:
        while go_on:
            value = str(len(futures)).encode()
            futures.append((value, await producer.send(topic, value, partition=0)))
            await asyncio.sleep(0.002)

    sending = asyncio.create_task(send())
    await asyncio.sleep(0.5)
    await fault(await asyncio.to_thread(cluster.leader, topic))
    await asyncio.sleep(0.5)
    go_on = False
    await sending
    acked = []
    for value, future in futures:
        try:
            await asyncio.wait_for(future, 40)
            acked.append(value)
        except Exception:  # noqa: BLE001 - not acknowledged: it may be there or not
            continue
    await producer.stop()
    return acked


def _check(cluster: Cluster, topic: str, acked: list[bytes]) -> None:
    cluster.until_in_sync(topic)
    values = [value for _, value in cluster.until_equal(topic)]
    assert len(acked) > 100, "the test produces"
    assert len(values) == len(set(values)), "nothing twice"
    assert [value for value in values if value in set(acked)] == acked, "everything acknowledged, in order"


async def test_the_leader_is_killed(cluster: Cluster) -> None:
    cluster.create("killed")

    async def kill(leader: int) -> None:
        cluster.brokers[leader].kill()
        await asyncio.to_thread(
            cluster.until, lambda: cluster.leader("killed") not in (-1, leader), "another leads"
        )
        await asyncio.sleep(0.5)
        await asyncio.to_thread(cluster.brokers[leader].start)

    acked = await _produce_through(cluster, "killed", kill)
    await asyncio.to_thread(_check, cluster, "killed", acked)


async def test_the_leader_is_paused(cluster: Cluster) -> None:
    cluster.create("paused")

    async def pause(leader: int) -> None:
        cluster.pause(leader)
        others = [each for each in cluster.brokers if each != leader]
        await asyncio.sleep(3.5)
        cluster.resume(leader)
        assert others

    acked = await _produce_through(cluster, "paused", pause)
    await asyncio.to_thread(_check, cluster, "paused", acked)


def _fill(cluster: Cluster, topic: str, number: int) -> None:
    with cluster.client(cluster.leader(topic)) as client:
        for each in range(number):
            answer = produce(client, topic, batch(f"{topic} {each}".encode() * 50))
            assert answer.error_code.value == 0


def _follower(cluster: Cluster, topic: str) -> int:
    leader = cluster.leader(topic)
    return next(each for each in cluster.brokers if each != leader)


def test_a_follower_with_an_empty_disk_fetches_everything(cluster: Cluster) -> None:
    cluster.create("emptied")
    _fill(cluster, "emptied", 50)
    follower = _follower(cluster, "emptied")
    cluster.brokers[follower].kill()
    cluster.empty(follower)
    cluster.until(lambda: len(cluster.partition("emptied").isr_nodes) == 2, "it leaves the ISR")
    _fill(cluster, "emptied", 50)
    cluster.brokers[follower].start()
    cluster.until_in_sync("emptied")
    assert len(cluster.until_equal("emptied")) == 100


def test_a_follower_with_a_damaged_log_is_whole_again(cluster: Cluster) -> None:
    """Cut in the middle, and a bit flipped before that: recovery keeps what is sound, the rest is fetched."""
    cluster.create("damaged")
    _fill(cluster, "damaged", 60)
    follower = _follower(cluster, "damaged")
    cluster.brokers[follower].kill()
    (segment,) = cluster.log_directory(follower, "damaged").glob("*.log")
    content = bytearray(segment.read_bytes().rstrip(b"\0"))
    content[len(content) // 3] ^= 4
    segment.write_bytes(content[: 2 * len(content) // 3])
    checkpoint = segment.parent.parent / "recovery-point-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    cluster.until(lambda: len(cluster.partition("damaged").isr_nodes) == 2, "it leaves the ISR")
    cluster.brokers[follower].start()
    cluster.until_in_sync("damaged")
    assert len(cluster.until_equal("damaged")) == 60


def test_alone_is_not_enough_for_acks_all(cluster: Cluster) -> None:
    cluster.create("alone")
    _fill(cluster, "alone", 3)
    leader = cluster.leader("alone")
    others = [each for each in cluster.brokers if each != leader]
    for each in others:
        cluster.brokers[each].kill()
    with cluster.client(leader) as client:

        def refused() -> bool:
            code = produce(client, "alone", batch(b"refused")).error_code.name
            assert code in ("not_enough_replicas", "request_timed_out", "not_enough_replicas_after_append")
            return bool(code == "not_enough_replicas")

        cluster.until(refused, "the ISR shrinks")
        assert produce(client, "alone", batch(b"acks=1"), acks=1).error_code.value == 0
    for each in others:
        cluster.brokers[each].start()
    cluster.until_in_sync("alone")
    values = [value for _, value in cluster.until_equal("alone")]
    assert values[-1] == b"acks=1"
    assert os.fsdecode(values[0]).startswith("alone 0")


def test_produce_requests_in_flight_are_appended_before_their_replies(cluster: Cluster) -> None:
    """Replies keep the order of requests, also with another API in between."""
    cluster.create("pipelined")
    leader = cluster.leader("pipelined")
    with cluster.client(leader) as client:
        for number in range(40):
            body = produce_body("pipelined", 0, batch(str(number).encode()))
            client.send_frame(0, 7, body)
            if number == 20:
                client.send(request(18, 0))
        offsets = []
        for number in range(41):
            frame = client.receive_frame()
            if number == 21:
                continue
            _, response = decode_response(frame, 0, 7)
            (answer,) = response.responses[0].partition_responses
            assert answer.error_code.value == 0
            offsets.append(answer.base_offset)
    assert offsets == list(range(40))
