"""Apache Kafka's own tests of Kafka Streams at a vip:vport, and at an Apache Kafka of one node, the control.

What each of them comes to is in `apache/streams.toml`.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.foreign.apache.suite import (
    STREAMS,
    Clusters,
    at_the_control,
    complaints,
    listed,
    one_kafka,
    run,
    unmentioned,
)
from tests.integration.stack import running_stack

_LIST: Final = Path(__file__).parent / "apache" / "streams.toml"


@pytest.mark.apache
def test_what_is_left_out_has_its_reason() -> None:
    assert not unmentioned(_LIST)


@pytest.mark.apache
@pytest.mark.timeout(3600)
def test_a_vport(tmp_path: Path) -> None:
    said = listed(_LIST)
    with running_stack(tmp_path / "data") as stack:
        clusters = Clusters(
            stack.create_instance("first-use", auto_create_topics=True)["bootstrap_servers"],
            stack.create_instance("strict")["bootstrap_servers"],
        )
        ran = run(STREAMS, clusters, tmp_path, said)
    assert not (found := complaints(said, ran)), "\n".join(found)


@pytest.mark.apache
@pytest.mark.timeout(3600)
def test_an_apache_kafka(tmp_path: Path) -> None:
    """What is a difference at a vport passes here: it is ours, and no fault of how the tests are run."""
    said = listed(_LIST)
    with (
        one_kafka(tmp_path / "first-use", "true") as makes_topics,
        one_kafka(tmp_path / "strict", "false") as strict,
    ):
        ran = run(STREAMS, Clusters(makes_topics, strict), tmp_path, said)
    assert not (found := complaints(at_the_control(said), ran)), "\n".join(found)
