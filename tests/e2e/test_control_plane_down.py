"""With the control plane stopped, a gateway and the broker that restart serve from what they kept on disk."""

import os
import signal
import time
from typing import Any

from confluent_kafka import Producer

from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack


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


def _error(bootstrap: str) -> str | None:
    came: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "retries": 0})
    producer.produce("numbers", b"v", on_delivery=lambda error, _: came.append(error))
    assert producer.flush(60) == 0
    return None if came[0] is None else str(came[0].name())


def test_an_injected_fault_ends_in_its_time_and_not_before(own_stack: Stack) -> None:
    """The gateway that is started meanwhile has it from its disk."""
    made = own_stack.create_instance("faulty")
    bootstrap, path = made["bootstrap_servers"], f"instances/{made['id']}/faults"
    create_topic(bootstrap, "numbers")
    control = own_stack.facts["pids"]["control"][0]
    began = time.monotonic()
    own_stack.api("POST", path, {"kind": "corrupt_checksum", "duration_s": 12})
    wait_until(lambda: own_stack.api("GET", path)["items"][0]["applied"])
    os.kill(control, signal.SIGSTOP)
    try:
        killed = own_stack.kill("gateways")
        own_stack.wait_for_restart("gateways", killed)
        assert _error(bootstrap) == "INVALID_MSG" or time.monotonic() - began > 12
        wait_until(lambda: _error(bootstrap) is None, 60)
    finally:
        os.kill(control, signal.SIGCONT)

    def ended_by() -> Any:
        return own_stack.api("GET", path)["items"][0]["ended_by"]

    wait_until(lambda: ended_by() is not None, 60)
    assert ended_by() == "system:its time was over"
