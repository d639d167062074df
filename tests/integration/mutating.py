"""Creators of topics that take no rest, over connections of their own, and what came of each attempt."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from tests.integration.broker.raw import RawClient, request
from wire.codec import duration, milliseconds

CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
CREATE_PARTITIONS: Final = 37
QUOTA: Final = ErrorCode.throttling_quota_exceeded


class Told(NamedTuple):
    """What an answer says."""

    codes: dict[str, ErrorCode]
    throttle_ms: int


def port_of(instance: dict[str, Any]) -> int:
    """The port of one of its vports."""
    return int(instance["bootstrap_servers"].split(",")[0].rpartition(":")[2])


def create(client: RawClient, version: int, topics: dict[str, int], *, validate_only: bool = False) -> Told:
    """CreateTopics: names with their partitions."""
    wanted = [
        {"name": name, "num_partitions": count, "replication_factor": -1, "assignments": (), "configs": ()}
        for name, count in topics.items()
    ]
    asked = request(
        CREATE_TOPICS, version, topics=wanted, timeout=duration(20_000), validate_only=validate_only
    )
    answer = client.call(asked)
    return Told(_codes(answer.topics), milliseconds(answer.throttle_time))


def grow(client: RawClient, version: int, topics: dict[str, int]) -> Told:
    """CreatePartitions: names with how many they are to have."""
    wanted = [{"name": name, "count": count, "assignments": None} for name, count in topics.items()]
    answer = client.call(request(CREATE_PARTITIONS, version, topics=wanted, timeout=duration(20_000)))
    return Told(_codes(answer.results), milliseconds(answer.throttle_time))


def delete(client: RawClient, version: int, *names: str) -> Told:
    """DeleteTopics, by name."""
    asked: dict[str, Any] = {"topic_names": names}
    if version >= 6:
        asked = {"topics": [{"name": name, "topic_id": None} for name in names]}
    answer = client.call(request(DELETE_TOPICS, version, **asked, timeout=duration(20_000)))
    return Told(_codes(answer.responses), milliseconds(answer.throttle_time))


def _codes(entries: Any) -> dict[str, ErrorCode]:
    return {entry.name: entry.error_code for entry in entries}


def flood(
    port: int, connections: int, attempts: int, version: int = 7, *, anew: bool = False
) -> Counter[ErrorCode]:
    """So many attempts on each of so many connections to create a topic of one partition, which is not tried
    again; what became of all of them. `anew`: each attempt has a connection of its own."""

    def one(place: int) -> Counter[ErrorCode]:
        found: Counter[ErrorCode] = Counter()
        client = RawClient(port, timeout_s=60)
        for attempt in range(attempts):
            if anew:
                client.socket.close()
                client = RawClient(port, timeout_s=60)
            found.update(create(client, version, {f"t{place}-{attempt}": 1}).codes.values())
        client.socket.close()
        return found

    with ThreadPoolExecutor(connections) as pool:
        return sum(pool.map(one, range(connections)), Counter())
