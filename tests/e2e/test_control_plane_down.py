"""With the control plane stopped, a gateway and the broker that restart serve from what they kept on disk."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.integration.stack import Stack, running_stack


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("down") / "data") as running:
        yield running


def test_restarted_processes_serve_from_their_caches(own_stack: Stack) -> None:
    bootstrap = own_stack.create_instance("cached")["bootstrap_servers"]
    create_topic(bootstrap, "numbers")
    control = own_stack.facts["pids"]["control"][0]
    with CountingProducer(bootstrap, "numbers") as producer:
        producer.wait_for_progress(300)
        os.kill(control, signal.SIGSTOP)
        try:
            for group in ("gateways", "brokers", "gateways"):
                killed = own_stack.kill(group)
                own_stack.wait_for_restart(group, killed)
                producer.wait_for_progress(300)
        finally:
            os.kill(control, signal.SIGCONT)
    assert producer.failed == []
    stored = read_all(bootstrap, "numbers", 0)
    assert stored == sorted(set(stored))
    assert set(producer.acknowledged[0]) <= set(stored)
