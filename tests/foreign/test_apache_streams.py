"""Apache Kafka's own tests of Kafka Streams at a vip:vport, and at an Apache Kafka of one node, the control.

What each of them comes to is in `apache/streams.toml`.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.foreign.apache.suite import (
    RUN_TIMEOUT_S,
    STREAMS,
    STREAMS_LIST,
    Clusters,
    at_the_control,
    complaints,
    listed,
    one_kafka,
    passed_at_the_control,
    run,
)
from tests.integration.stack import running_stack

_ROOM: Final = {"partitions_max": 3_000, "controller_mutation_rate_max": 1_000}
"""A test's topics of its own application stay until the class is through, and each of hundreds makes some."""


@pytest.mark.apache
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_a_vport(tmp_path: Path) -> None:
    said = listed(STREAMS_LIST)
    with running_stack(tmp_path / "data") as stack:
        clusters = Clusters(
            stack.create_instance("first-use", auto_create_topics=True, limits=_ROOM)["bootstrap_servers"],
            stack.create_instance("strict", limits=_ROOM)["bootstrap_servers"],
        )
        ran = run(STREAMS, clusters, tmp_path, said)
    assert not (found := complaints(said, ran)), "\n".join(found)


@pytest.mark.apache
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_an_apache_kafka(tmp_path: Path) -> None:
    """What passed here before does so still: a difference at a vport is ours, not of how tests are run."""
    said = listed(STREAMS_LIST)
    with (
        one_kafka(tmp_path / "first-use", "true") as makes_topics,
        one_kafka(tmp_path / "strict", "false") as strict,
    ):
        ran = run(STREAMS, Clusters(makes_topics, strict), tmp_path, said)
    assert not (found := complaints(at_the_control(said, passed_at_the_control("streams")), ran)), "\n".join(
        found
    )
