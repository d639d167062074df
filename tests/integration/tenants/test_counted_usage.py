"""Usage that is known without the pipeline: to the byte, over kills, and nobody else's."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_batches import decoded
from contracts.usage_records import USAGE_TOPIC
from tests.integration.stack import Stack, running_stack

_PATIENCE_S: Final = 120.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Its records are of a second, so that nobody waits for a minute."""
    directory = tmp_path_factory.mktemp("usage") / "data"
    with running_stack(directory, "--usage-interval-ms", "1000", "--deletion-grace", "0") as running:
        yield running


def _produce(instance: dict[str, Any], count: int, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "acks": "all"})
    for _ in range(count):
        producer.produce("orders", os.urandom(size_bytes))
        producer.poll(0)
    assert producer.flush(60) == 0


def _told(stack: Stack, instance: dict[str, Any], resolution: str = "hour") -> dict[str, Any]:
    begin = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 86_400))
    path = f"instances/{instance['id']}/usage?from={begin}&resolution={resolution}"
    told: dict[str, Any] = stack.api("GET", path)
    return told


def _counted(stack: Stack, instance: dict[str, Any]) -> int:
    """Bytes produced."""
    totals = _told(stack, instance)["totals"]
    return 0 if totals is None else int(totals["produce_bytes"])


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _answers(stack: Stack) -> bool:
    try:
        stack.api("GET", "instances")
    except httpx.TransportError:
        return False
    return True


def _recorded(stack: Stack, instance: dict[str, Any]) -> int:
    """The truth: what the counters of each boot id have come to, from zero when the instance was made."""
    system = stack.api("GET", f"instances/{SYSTEM_INSTANCE_ID}")
    consumer = Consumer({"bootstrap.servers": system["bootstrap_servers"], "group.id": "truth"})
    totals: Counter[str] = Counter()
    for partition in range(4):
        place = TopicPartition(USAGE_TOPIC, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(USAGE_TOPIC, partition, low)])
        while low < high:
            message = consumer.poll(30)
            assert message is not None and message.error() is None
            low = int(message.offset()) + 1
            for record in decoded(message.value()).records():
                if record.instance_id == instance["id"]:
                    totals[record.boot_id] = max(totals[record.boot_id], record.produce_bytes_total)
    consumer.close()
    return totals.total()


def _until_counted(stack: Stack, instance: dict[str, Any], at_least: int) -> int:
    """What is counted once it is all that is recorded, and once more a round of counting later."""
    for wait_s in (12, 0):
        _until(lambda: at_least <= _counted(stack, instance) == _recorded(stack, instance))
        time.sleep(wait_s)
    return _counted(stack, instance)


def test_hours_are_counted_without_the_pipeline(stack: Stack) -> None:
    made = [stack.create_instance(name) for name in ("shop", "idle")]
    for one in made:
        stack.api("POST", f"instances/{one['id']}/topics", {"name": "orders", "partitions": 3})
    _produce(made[0], 300, 1_000)
    counted = _until_counted(stack, made[0], 300_000)
    assert counted < 400_000, "frames are a little more than what is in them"
    day = _told(stack, made[0], "day")
    for told in (_told(stack, made[0]), day):
        assert told["available"] and told["totals"]["provisional"]
        assert told["totals"]["produce_bytes"] == counted
        assert told["totals"]["produce_requests"] > 0 and float(told["totals"]["gb_hours"]) > 0
        assert all(one["provisional"] and one["state"] == "open" for one in told["items"])
    idle = _told(stack, made[1])
    assert idle["totals"] is None or idle["totals"]["produce_bytes"] == 0


@pytest.mark.long
def test_every_byte_is_counted_once_whatever_is_killed(stack: Stack) -> None:
    made = stack.create_instance("kills")
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 3})
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            _produce(made, 50, 2_000)  # its flush waits for a broker that comes back
            time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        _until(lambda: _counted(stack, made) > 0)
        for group in ("control", "control", "brokers", "control"):
            time.sleep(4)
            stack.wait_for_restart(group, stack.kill(group))
    finally:
        ended.set()
        writer.join()
    _until(lambda: _answers(stack))
    _until_counted(stack, made, 1)
