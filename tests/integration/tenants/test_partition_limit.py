"""The partition limit is one number for an instance, for workers, console and auto-creation together."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import httpx
from kio.schema.errors import ErrorCode

from tests.integration.broker.raw import RawClient, request
from tests.integration.stack import Stack
from wire.codec import duration

LIMIT = 10


def _port(instance: dict[str, Any]) -> int:
    return int(instance["bootstrap_servers"].split(",")[0].rpartition(":")[2])


def _created(client: RawClient, name: str, partitions: int) -> ErrorCode:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": (),
        "configs": (),
    }
    code: ErrorCode = (
        client.call(request(19, 4, topics=[topic], timeout=duration(20_000))).topics[0].error_code
    )
    return code


def _grown(client: RawClient, name: str, total: int) -> ErrorCode:
    topics = [{"name": name, "count": total, "assignments": None}]
    code: ErrorCode = (
        client.call(request(37, 1, topics=topics, timeout=duration(20_000))).results[0].error_code
    )
    return code


def _named(client: RawClient, name: str) -> None:
    client.call(request(3, 4, topics=[{"name": name}], allow_auto_topic_creation=True))


def _console(stack: Stack, instance_id: str, name: str) -> int:
    return httpx.post(
        f"{stack.console_url}/v1/instances/{instance_id}/topics",
        json={"name": name, "partitions": 1},
        headers={"Authorization": f"Bearer {stack.api_key}"},
        timeout=30,
        trust_env=False,
    ).status_code


def _partitions(port: int) -> int:
    with RawClient(port) as client:
        topics = client.call(request(3, 4, topics=None, allow_auto_topic_creation=False)).topics
    return sum(len(topic.partitions) for topic in topics)


def _create(port: int, name: str, partitions: int) -> ErrorCode:
    with RawClient(port) as client:
        return _created(client, name, partitions)


def _at_once(port: int, calls: list[Callable[[RawClient], Any]]) -> list[Any]:
    """Each call on a connection of its own, which the kernel gives to some worker, at one moment."""
    start = Barrier(len(calls))

    def run(call: Callable[[RawClient], Any]) -> Any:
        with RawClient(port, timeout_s=30) as client:
            client.call(request(3, 4, topics=(), allow_auto_topic_creation=False))
            start.wait(30)
            return call(client)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_creators_on_all_workers_and_the_console_come_to_the_limit_and_no_further(stack: Stack) -> None:
    """Each worker sees room for itself before anybody's topic is there; the controller sees them all."""
    other = stack.create_instance("beside", limits={"partitions_max": LIMIT})
    neighbour = _port(other)
    for turn in range(3):
        one = stack.create_instance(
            f"racing-{turn}", limits={"partitions_max": LIMIT}, auto_create_topics=True
        )
        port = _port(one)
        codes = _at_once(port, [partial(_created, name=f"t{number}", partitions=5) for number in range(16)])
        assert Counter(codes) == {ErrorCode.none: 2, ErrorCode.policy_violation: 14}
        assert _partitions(port) == LIMIT
        with RawClient(port) as client:
            assert _created(client, "more", 1) is ErrorCode.policy_violation
            assert _grown(client, "t0", 6) in (
                ErrorCode.policy_violation,
                ErrorCode.unknown_topic_or_partition,
            )
            _named(client, "auto")
        assert _console(stack, one["id"], "console") == 409
        assert _partitions(port) == LIMIT
    assert [_create(neighbour, f"theirs-{number}", 1) for number in range(LIMIT)] == [ErrorCode.none] * LIMIT


def test_growing_auto_creating_and_the_console_race_for_the_same_partitions(stack: Stack) -> None:
    one = stack.create_instance("growing", limits={"partitions_max": LIMIT}, auto_create_topics=True)
    port = _port(one)
    assert _create(port, "grown", 1) is _create(port, "other", 1) is ErrorCode.none
    _at_once(
        port,
        [
            *(partial(_grown, name=name, total=total) for name in ("grown", "other") for total in (4, 5, 6)),
            *(partial(_named, name=f"auto-{number}") for number in range(8)),
            *(
                lambda _, number=number: _console(stack, one["id"], f"console-{number}")
                for number in range(4)
            ),  # type: ignore[misc]
        ],
    )
    assert 2 < _partitions(port) <= LIMIT
    while _partitions(port) < LIMIT:  # what 3 partitions did not fit into, 1 does
        assert _create(port, f"last-{_partitions(port)}", 1) is ErrorCode.none
    assert _create(port, "more", 1) is ErrorCode.policy_violation
    with RawClient(port, timeout_s=60) as client:  # as many names as a request may have, none of them there
        topics = [{"name": f"missing-{number}"} for number in range(9_000)]
        answer = client.call(request(3, 4, topics=topics, allow_auto_topic_creation=True))
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.unknown_topic_or_partition}
    assert _partitions(port) == LIMIT
