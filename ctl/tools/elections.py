"""Preferred leader elections: the first replica of each partition leads again."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32

from ctl.cluster_client import Cluster, refusal
from ctl.errors import usage
from wire.codec import duration

TopicPartition = tuple[str, int]
_PREFERRED: Final = i8(0)
_TIMEOUT_MS: Final = 60_000


class Elected(NamedTuple):
    """How one partition's election ended."""

    topic: str
    partition: int
    outcome: str
    """`elected`, `not needed`, or why not."""
    is_failure: bool


def partitions_of_file(path: Path) -> list[TopicPartition]:
    """Kafka's file: {"partitions": [{"topic": "t", "partition": 0}]}. Raises: CommandError."""
    try:
        return [
            (str(one["topic"]), int(one["partition"])) for one in json.loads(path.read_text())["partitions"]
        ]
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise usage(f'{path} is not like {{"partitions": [{{"topic": "t", "partition": 0}}]}}') from None


async def elect_preferred(cluster: Cluster, chosen: Iterable[TopicPartition] | None) -> list[Elected]:
    """Hold elections for some partitions, or all. Raises: CommandError, KafkaUnavailable."""
    topics: dict[str, list[int]] | None = None
    if chosen is not None:
        topics = {}
        for topic, partition in chosen:
            topics.setdefault(topic, []).append(partition)
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=None
        if topics is None
        else tuple(
            TopicPartitions(topic=TopicName(topic), partitions=tuple(map(i32, sorted(partitions))))
            for topic, partitions in topics.items()
        ),
        timeout=duration(_TIMEOUT_MS),
    )
    answer = await cluster.ask_controller(
        request, lambda each: each.error_code, timeout_s=_TIMEOUT_MS / 1000 + 10
    )
    if answer.error_code is not ErrorCode.none:
        raise refusal("elections", answer.error_code, None)
    return sorted(
        _elected(topic.topic, one)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    )


def _elected(topic: str, result: Any) -> Elected:
    code = result.error_code
    if code is ErrorCode.none:
        return Elected(topic, int(result.partition_id), "elected", False)
    if code is ErrorCode.election_not_needed:
        return Elected(topic, int(result.partition_id), "not needed", False)
    return Elected(topic, int(result.partition_id), result.error_message or code.name.upper(), True)
