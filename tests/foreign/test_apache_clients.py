"""Apache Kafka's own client tests at a vip:vport, and at an Apache Kafka of one node, which is the control.

What each of them comes to is in `apache/clients.toml`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from tests.foreign.apache.suite import Clusters, Outcome, Verdict, complaints, listed, run
from tests.integration.stack import running_stack

_LIST: Final = Path(__file__).parent / "apache" / "clients.toml"


def _left_out(said: dict[str, Outcome]) -> list[str]:
    return [test for test, outcome in said.items() if outcome.verdict is Verdict.NOT_APPLICABLE]


@contextmanager
def _kafka(directory: Path, makes_topics: str) -> Iterator[str]:
    """Where it is, with what most tests ask of theirs: one partition of offsets, quick heartbeats."""
    settings = {
        "auto.create.topics.enable": makes_topics,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with kafka_cluster(directory, Wish(brokers=1), settings=settings, heap="512m") as brokers:
        yield f"127.0.0.1:{brokers[0].port}"


@pytest.mark.apache
@pytest.mark.timeout(3600)
def test_a_vport(tmp_path: Path) -> None:
    said = listed(_LIST)
    with running_stack(tmp_path / "data") as stack:
        clusters = Clusters(
            stack.create_instance("first-use", auto_create_topics=True)["bootstrap_servers"],
            stack.create_instance("strict")["bootstrap_servers"],
        )
        ran = run(clusters, tmp_path, _left_out(said))
    assert not (found := complaints(said, ran)), "\n".join(found)


@pytest.mark.apache
@pytest.mark.timeout(3600)
def test_an_apache_kafka(tmp_path: Path) -> None:
    """What is a difference at a vport passes here: it is ours, and no fault of how the tests are run."""
    said = listed(_LIST)
    there = {
        test: Outcome(Verdict.PASSES) if outcome.verdict is Verdict.DIFFERS else outcome
        for test, outcome in said.items()
    }
    with (
        _kafka(tmp_path / "first-use", "true") as makes_topics,
        _kafka(tmp_path / "strict", "false") as strict,
    ):
        ran = run(Clusters(makes_topics, strict), tmp_path, _left_out(said))
    assert not (found := complaints(there, ran)), "\n".join(found)
