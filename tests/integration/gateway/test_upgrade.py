"""A new process takes a worker's listeners over while clients come and go: none is refused or reset."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.gateway.processes import GatewayProcess
from tests.integration.gateway.test_data_path import produce
from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, FrameClient, instance_spec, until

AT_ONCE = 8
SERVED_EACH_SIDE = 150
IDLE = 20
WITHIN_S = 120.0


class Clients:
    """They connect, produce one message, take the answer and go, over and over."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.served = 0
        self.failures: list[str] = []
        self._stopping = False

    async def until_served(self, more: int) -> None:
        goal = self.served + more
        await until(lambda: self.served >= goal or bool(self.failures), WITHIN_S)

    async def run(self) -> None:
        while not self._stopping:
            try:
                client = await FrameClient.connect(self.port)
                client.send(produce([("orders", b"x")]))
                await client.frame(WITHIN_S)
                client.close()
            except Exception as error:  # noqa: BLE001 - what a client saw
                self.failures.append(repr(error))
                return
            self.served += 1

    def stop(self) -> None:
        self._stopping = True


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "old", tmp_path / "new"
    for directory in made:
        directory.mkdir()
    return made


async def test_no_client_is_refused_or_reset_while_a_successor_takes_over(
    broker: FakeBroker, directories: tuple[Path, Path]
) -> None:
    spec = instance_spec(A)
    old = GatewayProcess(directories[0], broker.port, "--drain-ms", "500")
    old.serve(spec)
    await asyncio.to_thread(old.start)
    new = GatewayProcess(directories[1], broker.port, "--name", "gateway-1", "--take-over", str(old.pid))
    new.serve(spec)
    clients = Clients(spec.listeners[1].port)
    try:
        idle = [await FrameClient.connect(clients.port) for _ in range(IDLE)]
        for one in idle:
            await one.call(produce([("orders", b"x")]))
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(clients.run())
            await clients.until_served(SERVED_EACH_SIDE)
            await asyncio.to_thread(new.start)
            assert await asyncio.to_thread(old.wait) == 0
            await clients.until_served(SERVED_EACH_SIDE)
            clients.stop()
        assert not clients.failures
        for one in idle:
            assert await one.reader.read() == b"", "an idle connection ends, it is not reset"
        new.stop()
    finally:
        old.kill()
        new.kill()


async def test_a_successor_that_fails_leaves_everything_as_it_was(
    broker: FakeBroker, directories: tuple[Path, Path]
) -> None:
    spec = instance_spec(A)
    old = GatewayProcess(directories[0], broker.port)
    old.serve(spec)
    await asyncio.to_thread(old.start)
    wrong = ("--name", "gateway-1", "--take-over", str(old.pid), "--metrics", "192.0.2.1:1")
    new = GatewayProcess(directories[1], broker.port, *wrong)
    new.serve(spec)
    try:
        client = await FrameClient.connect(spec.listeners[1].port)
        with pytest.raises(AssertionError, match="did not start"):
            await asyncio.to_thread(new.start)
        await client.call(produce([("orders", b"x")]))
        again = await FrameClient.connect(spec.listeners[1].port)
        await again.call(produce([("orders", b"x")]))
    finally:
        old.kill()
