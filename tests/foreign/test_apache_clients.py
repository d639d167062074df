"""Apache Kafka's own client tests at a vip:vport, and at an Apache Kafka of one node, which is the control.

What each of them comes to is in `apache/clients.toml`.
"""

from pathlib import Path

import pytest

from tests.foreign.apache.suite import (
    CLIENTS,
    CLIENTS_LIST,
    RUN_TIMEOUT_S,
    Clusters,
    at_the_control,
    complaints,
    listed,
    one_kafka,
    passed_at_the_control,
    run,
)
from tests.integration.stack import running_stack


@pytest.mark.apache
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_a_vport(tmp_path: Path) -> None:
    said = listed(CLIENTS_LIST)
    with running_stack(tmp_path / "data") as stack:
        clusters = Clusters(
            stack.create_instance("first-use", auto_create_topics=True)["bootstrap_servers"],
            stack.create_instance("strict")["bootstrap_servers"],
        )
        ran = run(CLIENTS, clusters, tmp_path, said)
    assert not (found := complaints(said, ran)), "\n".join(found)


@pytest.mark.apache
@pytest.mark.timeout(RUN_TIMEOUT_S)
def test_an_apache_kafka(tmp_path: Path) -> None:
    """What passed here before does so still: a difference at a vport is ours, not of how tests are run."""
    said = listed(CLIENTS_LIST)
    with (
        one_kafka(tmp_path / "first-use", "true") as makes_topics,
        one_kafka(tmp_path / "strict", "false") as strict,
    ):
        ran = run(CLIENTS, Clusters(makes_topics, strict), tmp_path, said)
    assert not (found := complaints(at_the_control(said, passed_at_the_control("clients")), ran)), "\n".join(
        found
    )
