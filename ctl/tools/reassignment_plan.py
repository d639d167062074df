"""Plans of which brokers hold which partitions, in the JSON of Kafka's reassignment tool. Pure.

{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [4, 5, 6]}]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.controller.assignment import TooFewBrokers, assign_replicas
from ctl.errors import CommandError, usage
from ctl.tools.partitions import PartitionRow

_EXAMPLE: Final = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
TopicPartition = tuple[str, int]
Plan = dict[TopicPartition, tuple[int, ...]]


def encode(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """The plan as JSON values."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(plan.items())
    ]
    return {"version": 1, "partitions": partitions}


def decode(text: str, name: str) -> Plan:
    """A plan from a file called `name`. Log directories, which Kafka's tool writes as "any", are left out.

    Raises: CommandError.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise usage(f"{name} is not JSON: {error}") from None
    plan: Plan = {}
    try:
        if found.get("version", 1) != 1:
            raise usage(f"{name} has version {found['version']}, not 1")
        for one in found["partitions"]:
            key = (str(one["topic"]), int(one["partition"]))
            replicas = tuple(map(int, one["replicas"]))
            if key in plan:
                raise usage(f"{name} names partition {key[0]}-{key[1]} twice")
            if not replicas or len(set(replicas)) != len(replicas):
                raise usage(f"{name}: the replicas of {key[0]}-{key[1]} are empty or name a broker twice")
            plan[key] = replicas
    except (AttributeError, KeyError, TypeError, ValueError):
        raise usage(f"{name} is not like {_EXAMPLE}") from None
    if not plan:
        raise usage(f"{name} names no partition")
    return plan


def topics_of(text: str, name: str) -> list[str]:
    """Topics from Kafka's file of topics to move: {"topics": [{"topic": "t"}], "version": 1}.

    Raises: CommandError.
    """
    try:
        return [str(one["topic"]) for one in json.loads(text)["topics"]]
    except (ValueError, KeyError, TypeError):
        raise usage(f'{name} is not like {{"topics": [{{"topic": "t"}}], "version": 1}}') from None


class Draw(NamedTuple):
    """Where the assignment of one topic begins (`broker.controller.assignment`)."""

    start: int
    shift: int


def generate(
    rows: Iterable[PartitionRow],
    brokers: Mapping[int, str | None],
    draws: Iterable[Draw],
    replication_factor: int | None = None,
) -> Plan:
    """New replicas on `brokers` (with their racks) for whole topics; None: each with as many as it has now.

    Raises: CommandError.
    """
    topics: dict[str, list[PartitionRow]] = {}
    for row in rows:
        topics.setdefault(row.topic, []).append(row)
    plan: Plan = {}
    for (topic, parts), draw in zip(sorted(topics.items()), draws, strict=False):
        factor = replication_factor or max(len(part.replicas) for part in parts)
        try:
            assigned = assign_replicas(brokers, len(parts), factor, start=draw.start, shift=draw.shift)
        except TooFewBrokers as error:
            raise CommandError(f"topic {topic}: {error}") from None
        plan |= {
            (topic, part.partition): replicas for part, replicas in zip(sorted(parts), assigned, strict=True)
        }
    return plan


def faults(plan: Plan, rows: Iterable[PartitionRow], brokers: Iterable[int]) -> list[str]:
    """Why a plan cannot be carried out, one sentence each."""
    known = {(row.topic, row.partition) for row in rows}
    live = set(brokers)
    found = [f"partition {topic}-{partition} does not exist" for topic, partition in plan.keys() - known]
    strangers = sorted({broker for replicas in plan.values() for broker in replicas} - live)
    return sorted(found) + [f"broker {broker} is not registered" for broker in strangers]


class Throttled(NamedTuple):
    """Replicas whose traffic a move limits: values of Kafka's `*.replication.throttled.replicas`."""

    leader: str
    follower: str


def throttled_replicas(plan: Plan, rows: Iterable[PartitionRow]) -> dict[str, Throttled]:
    """Per topic: whoever may lead a moving partition now, and whoever has to fetch it."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for row in rows:
        target = plan.get((row.topic, row.partition))
        if target is None or set(target) <= set(row.replicas):
            continue
        leaders.setdefault(row.topic, []).extend(f"{row.partition}:{broker}" for broker in row.replicas)
        followers.setdefault(row.topic, []).extend(
            f"{row.partition}:{broker}" for broker in target if broker not in row.replicas
        )
    return {topic: Throttled(",".join(leaders[topic]), ",".join(followers[topic])) for topic in leaders}
