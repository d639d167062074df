"""Request time at a broker: an instance that floods it gets its share of CPU time, and others do not wait."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from tests.integration.broker.fake_control import SECRET, FakeControl, running_control, spec, wait_until
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, request
from traffic.cpu import CPU_BURST_MIN_US

GREEDY: Final = "iaaaaaaaaaaa"
QUIET: Final = "ibbbbbbbbbbb"
PERCENT: Final = 4
SHARE_US_PER_S: Final = PERCENT * 10_000 // 2
"""The brokers' half, of which there is one."""
WINDOW_S: Final = 5.0


@pytest.fixture(scope="module")
def control() -> Iterator[FakeControl]:
    with running_control() as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, control: FakeControl) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("timed")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    with running_broker(directory, "--control", control.url, "--secret-file", str(secret)) as running:
        wait_until(lambda: control.reports)
        control.set(spec(GREEDY, request_percent=PERCENT))
        control.set(spec(QUIET))
        wait_until(lambda: control.applied_revision == control.revision)
        yield running


def _connect(broker: BrokerProcess, instance_id: str) -> RawClient:
    client = RawClient(broker.port, timeout_s=60.0)
    client.send(request(17, 1, mechanism="PLAIN"))
    token = f"{instance_id}/192.0.2.7:5555\0portico\0{SECRET}".encode()
    client.send(request(36, 1, auth_bytes=token))
    assert client.receive().error_code.value == client.receive().error_code.value == 0
    return client


def _metadata(client: RawClient) -> int:
    """One request; its throttle_time_ms."""
    answer = client.call(request(3, 4, topics=None, allow_auto_topic_creation=False))
    return round(answer.throttle_time.total_seconds() * 1000)


def _spent_us(control: FakeControl, instance_id: str) -> int:
    for report in reversed(control.reports):
        for each in report.cpu:
            if each.instance_id == instance_id:
                return each.counters.used
    return 0


class Flood(threading.Thread):
    """Requests on connections of their own, or on one, until it is stopped."""

    def __init__(self, broker: BrokerProcess, *, reconnects: bool) -> None:
        super().__init__()
        self._broker, self._reconnects = broker, reconnects
        self._client: RawClient | None = None
        self._is_stopped = False
        self.throttled = 0

    def run(self) -> None:
        try:
            while not self._is_stopped:
                with _connect(self._broker, GREEDY) as self._client:
                    self.throttled += _metadata(self._client) > 0
                    while not (self._is_stopped or self._reconnects):
                        self.throttled += _metadata(self._client) > 0
        except OSError:
            assert self._is_stopped

    def stop(self) -> None:
        """Also while it waits for an answer."""
        self._is_stopped = True
        if self._client is not None:
            with suppress(OSError):
                self._client.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.timeout(120)
def test_a_flood_of_requests_gets_its_share_and_others_are_not_throttled(
    control: FakeControl, broker: BrokerProcess
) -> None:
    before_us = _spent_us(control, GREEDY)
    started_s = time.monotonic()
    floods = [Flood(broker, reconnects=number < 4) for number in range(8)]
    for flood in floods:
        flood.start()
    answered = 0
    with _connect(broker, QUIET) as quiet:
        while time.monotonic() < started_s + WINDOW_S or not sum(flood.throttled for flood in floods):
            assert _metadata(quiet) == 0, "a neighbour's debt is not its own"
            answered += 1
            time.sleep(0.02)
    for flood in floods:
        flood.stop()
    for flood in floods:
        flood.join()
    reports = len(control.reports)
    wait_until(lambda: len(control.reports) >= reports + 2)
    elapsed_s = time.monotonic() - started_s
    spent_us = _spent_us(control, GREEDY) - before_us
    burst_us = CPU_BURST_MIN_US + SHARE_US_PER_S // 2
    """A full bucket, and what begun requests may overdraw."""
    assert answered
    assert 0.5 * SHARE_US_PER_S * WINDOW_S < spent_us <= 1.1 * (SHARE_US_PER_S * elapsed_s + burst_us)
