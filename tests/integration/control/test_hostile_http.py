"""Strangers at both ports of a real control process: none of them stops the console or the quota master."""

import asyncio
import contextlib
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ctl.control import Control, parse_arguments
from tests.integration.control.process import (
    PATIENCE_S,
    ControlProcess,
    Neighbours,
    Reporter,
    is_closed,
    raw,
    running_control,
)

LINE_BYTES: Final = 36_000_000
"""What each of the endless lines would send."""
HALF_REQUESTS: Final = 3_000
RSS_GROWTH_MAX: Final = 80_000_000


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    with running_control(tmp_path_factory.mktemp("control") / "data") as process:
        yield process


@pytest.fixture
def neighbours(control: ControlProcess) -> Iterator[Neighbours]:
    found = Neighbours(control)
    found.round()
    yield found
    found.close()


class EndlessLine(threading.Thread):
    """Sends one header line until it is cut."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.sent = 0
        self.said = b""

    def run(self) -> None:
        with contextlib.closing(raw(self._address)) as connection, contextlib.suppress(OSError):
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nx: ")
            while self.sent < LINE_BYTES:
                self.sent += connection.send(b"a" * 65_536)
            self.said = connection.recv(65_536)


@pytest.mark.parametrize("port", ["public", "internal"])
def test_four_header_lines_that_never_end(control: ControlProcess, neighbours: Neighbours, port: str) -> None:
    rss = control.rss_bytes()
    senders = [EndlessLine(getattr(control, port)) for _ in range(4)]
    for sender in senders:
        sender.start()
    rounds = 0
    while any(sender.is_alive() for sender in senders) or rounds < 3:
        neighbours.round()
        rounds += 1
    assert all(sender.sent < LINE_BYTES for sender in senders), [sender.sent for sender in senders]
    assert control.rss_bytes() - rss < RSS_GROWTH_MAX
    assert control.metric("portico_http_connections_cut_total", port=port) == 4


@pytest.mark.parametrize("port", ["public", pytest.param("internal", marks=pytest.mark.long)])
def test_three_thousand_half_requests(control: ControlProcess, neighbours: Neighbours, port: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
    rss = control.rss_bytes()
    held = []
    for number in range(HALF_REQUESTS):
        connection = raw(getattr(control, port), f"127.0.{number % 12 + 1}.9")
        with contextlib.suppress(OSError):
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nhost: a\r\nx-half: ")
        held.append(connection)
        if number % 300 == 0:
            neighbours.round()
    most = control.metric("portico_http_connections_open", port=port)
    assert most <= (1_024 if port == "public" else 4_096)
    assert control.rss_bytes() - rss < RSS_GROWTH_MAX
    deadline = time.monotonic() + 3 * PATIENCE_S
    while held:
        neighbours.round()
        held = [connection for connection in held if not is_closed(connection)]
        assert time.monotonic() < deadline, f"{len(held)} half requests are still open"
        time.sleep(0.2)
    neighbours.round()


def test_slow_bodies(control: ControlProcess, neighbours: Neighbours) -> None:
    """200 strangers log in without ever saying who they are, 50 send what is too long for that."""
    rss = control.rss_bytes()
    head = b"POST /v1/session HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
    slow = [raw(control.public) for _ in range(200)]
    for connection in slow:
        connection.sendall(head % 1_000 + b"{")
    large = [raw(control.public, "127.0.0.8") for _ in range(50)]
    for connection in large:
        connection.sendall(head % 1_000_000 + b"{")
    for _ in range(5):
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.sendall(b" ")
        neighbours.round()
    for connection in large:
        assert connection.recv(20).startswith(b"HTTP/1.1 413")
    assert control.rss_bytes() - rss < RSS_GROWTH_MAX
    assert neighbours.answered == 30
    for connection in [*slow, *large]:
        connection.close()


def test_an_internal_port_keeps_no_strangers(control: ControlProcess, neighbours: Neighbours) -> None:
    body = b"POST /internal/v1/reports HTTP/1.1\r\nhost: a\r\ncontent-length: 16000000\r\n\r\n"
    for _ in range(20):
        connection = raw(control.internal)
        with contextlib.suppress(OSError):
            connection.sendall(body + b"x" * 1_000_000)
        said = b""
        with contextlib.suppress(OSError):
            while piece := connection.recv(65_536):
                said += piece
        assert said == b"" or said.startswith(b"HTTP/1.1 401")
        connection.close()
    neighbours.round()


async def test_the_master_does_not_wait_for_the_console(tmp_path: Path) -> None:
    """The public port's loop stands still, blocked by this test's calls: brokers get their leases and
    gateways their specs all the same."""
    process = ControlProcess(tmp_path / "data")
    control = Control(parse_arguments(process.arguments()))
    task = asyncio.create_task(control.run())
    async with asyncio.timeout(PATIENCE_S):
        while not process.layout.run_file("control").exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
    broker = Reporter(process)
    for _ in range(10):
        broker.round()  # blocks the loop that is running
    assert broker.answered == 20
    broker.close()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
