"""Request time at the gateway: a tenant that floods a worker waits for its own share, and nobody for it.

Real sockets. What one waits is counted in the cost of the other's steps, as the worker's own account has it.
"""

import asyncio
import contextlib
import datetime
import itertools
import struct
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.names import physical_name
from contracts.quota import Direction
from contracts.specs import Limits
from gateway.strangers import RATE_US_PER_S as STRANGERS_US_PER_S
from runtime.clock import Clock
from runtime.machine import Machine
from runtime.pacing import GOING_ON_DEBT_MS
from tests.integration.gateway.processes import GatewayProcess, running_gateway_process
from tests.integration.gateway.test_data_path import fetch, produce
from tests.scenarios.fake_broker import FakeBroker, Received
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, instance_spec, running_gateway
from traffic.turns import QUANTUM_ALONE_NS, Hold, Turn
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import decode_response, framed_response, request_class

GREEDY, POLITE = A, B
CONNECTIONS = 50
REQUESTS = 14
"""Of each connection: as many as one step takes."""
SHARE_US_PER_S = 50_000
"""Half of 10 percent of a core: the gateways' half, with one worker."""
WINDOW_S = 10.0
PATIENCE_S = 60.0


def all_topics(version: int = 4) -> Any:
    return build(request_class(ApiKey.METADATA, version), {"topics": None})


def one_topic() -> Any:
    return build(request_class(ApiKey.METADATA, 4), {"topics": [{"name": "orders"}]})


def with_many_topics(broker: FakeBroker, instance_id: str, topics: int) -> None:
    """Listings of all topics are long; they are encoded once, so that the broker costs next to nothing."""
    listed = [
        {
            "name": physical_name(instance_id, f"topic-{number}"),
            "partitions": [{"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}],
        }
        for number in range(topics)
    ]
    long = framed_response(response(ApiKey.METADATA, 4, topics=listed), 0)
    short = framed_response(response(ApiKey.METADATA, 4, topics=[]), 0)

    def answer(received: Received) -> bytes:
        frame = long if received.request.topics is None else short
        return frame[:4] + struct.pack(">i", received.correlation_id) + frame[8:]

    broker.intercept(ApiKey.METADATA, answer)


class Steps:
    """What a worker's loop spends on whom, step by step, in order."""

    def __init__(self, gateway: RunningGateway, count: Callable[[], int] = lambda: 0) -> None:
        self.spent: list[tuple[str, int]] = []
        self.counted: list[int] = []
        """By how much `count` grew, step by step."""
        last = count()
        pacing = gateway.gateway.worker.pacing
        end = pacing.end

        def recorded(turn: Turn) -> None:
            nonlocal last
            before = turn.left_ns
            end(turn)
            self.spent.append((turn.name, before - turn.left_ns))
            now, before = count(), last
            self.counted.append(now - before)
            last = now

        pacing.end = recorded  # type: ignore[method-assign]

    def between(self, first: int, name: str, until_name: str) -> int:
        """What `name` had from step `first` on before `until_name` had one."""
        total = 0
        for who, cost in self.spent[first:]:
            if who == until_name:
                break
            total += cost if who == name else 0
        return total

    def longest(self, name: str) -> int:
        return max(cost for who, cost in self.spent if who == name)


async def test_a_polite_tenant_waits_for_a_step_or_two_however_many_connections_the_other_has(
    broker: FakeBroker,
) -> None:
    async with running_gateway(broker.port, instance_spec(GREEDY), instance_spec(POLITE)) as gateway:
        greedy = [await gateway.client(GREEDY) for _ in range(CONNECTIONS)]
        polite = await gateway.client(POLITE)
        await polite.call(one_topic())
        steps = Steps(gateway)

        waits = []
        for _ in range(10):
            at = len(steps.spent)
            for client in greedy:  # all of them are readable before the polite one is
                for _ in range(REQUESTS):
                    client.send(one_topic())
            polite.send(one_topic())
            await polite.frame(PATIENCE_S)
            waits.append(steps.between(at, GREEDY, POLITE))
            for client in greedy:
                for _ in range(REQUESTS):
                    await client.frame(PATIENCE_S)
        # Three looks at the sockets at most: the one under way, the next, and a turn between them.
        assert max(waits) <= 3 * (QUANTUM_ALONE_NS + steps.longest(GREEDY))
        assert gateway.gateway.worker.pacing.pumped_steps > CONNECTIONS


async def test_a_megabyte_of_tiny_requests_is_many_steps(broker: FakeBroker) -> None:
    async with running_gateway(broker.port, instance_spec(GREEDY)) as gateway:
        client = await gateway.client(GREEDY)
        await client.call(one_topic())
        (connection,) = gateway.gateway.worker.served[GREEDY].connections
        steps = Steps(gateway, lambda: connection.session.requests.frames)
        before = connection.session.requests.frames
        for _ in range(5_000):
            client.send(one_topic())
        for _ in range(5_000):
            await client.frame(PATIENCE_S)
        assert connection.session.requests.frames - before == 5_000
        assert max(steps.counted) <= 16, "the rest waits for the connection's next turn"


async def test_many_tiny_replies_are_many_steps(broker: FakeBroker) -> None:
    async with running_gateway(broker.port, instance_spec(GREEDY)) as gateway:
        client = await gateway.client(GREEDY)
        await client.call(one_topic())
        held: list[bytes] = []

        def keep(received: Received) -> bytes | None:
            answer = response(ApiKey.METADATA, 4, controller_id=len(held))  # each is another: all are decoded
            held.append(framed_response(answer, received.correlation_id))
            return b"".join(held) if len(held) == 400 else None

        broker.intercept(ApiKey.METADATA, keep)
        (connection,) = gateway.gateway.worker.served[GREEDY].connections
        steps = Steps(gateway, lambda: -len(connection.session.queue))
        for _ in range(400):
            client.send(one_topic())
        for number in range(400):
            (correlation_id,) = struct.unpack_from(">i", await client.frame(PATIENCE_S))
            assert correlation_id == number + 2
        assert max(steps.counted) <= 16


# -- debt --------------------------------------------------------------------------------------------


def owe(gateway: RunningGateway, debt_ms: int) -> None:
    """Spend the burst and so much more."""
    worker = gateway.gateway.worker
    turn = worker.served[A].turn
    flow = worker.point.flow(A, Direction.CPU)
    assert flow is not None and flow.rate_per_s == SHARE_US_PER_S
    worker.pacing.add_helper_time(turn, (1_000 + debt_ms) * SHARE_US_PER_S)
    assert turn.hold is not Hold.NONE


def told_ms(frame: bytes, request: Any) -> int:
    return round(decoded(frame, request).throttle_time.total_seconds() * 1000)


def decoded(frame: bytes, request: Any) -> Any:
    return decode_response(frame, request.__api_key__, request.__version__)[1]


FORWARDED = {
    "Metadata": all_topics(),
    "Produce": produce([("orders", b"x" * 100)]),
    "Fetch": fetch(),
    "large Fetch": fetch(),
    "FindCoordinator, flexible": build(request_class(ApiKey.FIND_COORDINATOR, 3), {"key": "group"}),
}


@pytest.mark.parametrize("name", FORWARDED)
async def test_replies_that_pass_through_tell_of_the_debt(broker: FakeBroker, name: str) -> None:
    request = FORWARDED[name]
    arrived = asyncio.Event()
    records = b"r" * (3_000_000 if name == "large Fetch" else 10)

    def silent(received: Received) -> None:
        arrived.set()

    async with running_gateway(broker.port, instance_spec(A, request_percent=10)) as gateway:
        client = await gateway.client(A)
        await client.call(one_topic())
        api_key = request.__api_key__
        broker.intercept(api_key, silent)
        correlation_id = client.send(request)
        await asyncio.wait_for(arrived.wait(), PATIENCE_S)
        owe(gateway, 100)
        known: dict[str, Any] = {}
        if api_key == ApiKey.FETCH:
            entry = {"topic": physical_name(A, "orders")}
            known["responses"] = [{**entry, "partitions": [{"partition_index": 0, "records": records}]}]
        broker.push(framed_response(response(api_key, request.__version__, **known), correlation_id))
        frame = await client.frame(PATIENCE_S)
        assert 0 < told_ms(frame, request) <= GOING_ON_DEBT_MS, "it left while the debt was not paid"
        if api_key == ApiKey.FETCH:
            assert decoded(frame, request).responses[0].partitions[0].records == records


async def test_what_the_broker_tells_stands_when_it_is_more(broker: FakeBroker) -> None:
    arrived = asyncio.Event()
    broker.intercept(ApiKey.METADATA, lambda received: arrived.set())
    async with running_gateway(broker.port, instance_spec(A, request_percent=10)) as gateway:
        client = await gateway.client(A)
        correlation_id = client.send(all_topics())
        await asyncio.wait_for(arrived.wait(), PATIENCE_S)
        owe(gateway, 100)
        told = response(ApiKey.METADATA, 4, throttle_time=datetime.timedelta(milliseconds=7_000))
        broker.push(framed_response(told, correlation_id))
        assert told_ms(await client.frame(PATIENCE_S), all_topics()) == 7_000


async def test_local_answers_tell_of_the_debt(broker: FakeBroker) -> None:
    """By clocks on which every answer costs as much, however slow or busy the machine is."""
    readings, had = itertools.count(step=200_000), itertools.count(step=1_000_000_000)
    machine = Machine(clock=Clock(monotonic_ns=lambda: next(readings), cpu_ns=lambda: next(had)))
    request = build(request_class(ApiKey.API_VERSIONS, 2), {})
    spec = instance_spec(A, request_percent=10)
    async with running_gateway(broker.port, spec, machine=machine) as gateway:
        client = await gateway.client(A)
        assert told_ms((await raw(client, request)), request) == 0
        owe(gateway, 100)
        for _ in range(200):
            client.send(request)
        told = [told_ms(await client.frame(PATIENCE_S), request) for _ in range(200)]
        assert any(told), "they waited, and what they cost is owed again"


async def raw(client: FrameClient, request: Any) -> bytes:
    client.send(request)
    return await client.frame(PATIENCE_S)


async def test_a_new_connection_of_an_instance_in_debt_waits_and_is_served(broker: FakeBroker) -> None:
    async with running_gateway(broker.port, instance_spec(A, request_percent=10)) as gateway:
        old = await gateway.client(A)
        await old.call(one_topic())
        owe(gateway, 400)
        carried = len(broker.of(ApiKey.METADATA))
        served = gateway.gateway.worker.served[A]
        new = await gateway.client(A)  # the kernel says yes
        new.send(one_topic())
        old.send(one_topic())
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while (len(served.connections), len(broker.of(ApiKey.METADATA))) == (1, carried):
            await asyncio.sleep(0.002)
        assert loop.time() - began_s > 0.35, "a debt is paid by time alone"
        await old.frame(PATIENCE_S)
        await new.frame(PATIENCE_S)
        assert len(served.connections) == 2


async def test_a_larger_share_ends_the_wait(broker: FakeBroker) -> None:
    async with running_gateway(broker.port, instance_spec(A, request_percent=10)) as gateway:
        client = await gateway.client(A)
        await client.call(one_topic())
        owe(gateway, 3_600_000)
        client.send(one_topic())
        await asyncio.sleep(0.1)
        gateway.change(A, request_percent=10_000_000)
        await client.frame(PATIENCE_S)


# -- shares, on a worker's process ---------------------------------------------------------------------


class Account:
    """What a worker's own metrics say."""

    def __init__(self, process: GatewayProcess) -> None:
        self._url = process.metrics_url

    async def now(self) -> "Callable[..., float]":
        text = await asyncio.to_thread(self._read)
        values = {}
        for line in text.splitlines():
            if line.startswith("portico_gateway_"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)

        def value(name: str, **labels: str) -> float:
            shown = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
            return values.get(f"portico_gateway_{name}{{{shown}}}", 0.0)

        return value

    def _read(self) -> str:
        with urllib.request.urlopen(self._url, timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())


@pytest.fixture
async def worker_process(broker: FakeBroker, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    with_many_topics(broker, GREEDY, 200)
    limits = Limits(connection_rate_max=100_000)
    specs = (
        instance_spec(GREEDY, request_percent=10, limits=limits),
        instance_spec(POLITE, request_percent=10, limits=limits),
    )
    stack = contextlib.ExitStack()
    process = await asyncio.to_thread(
        stack.enter_context, running_gateway_process(tmp_path, broker.port, *specs)
    )
    try:
        yield process
    finally:
        await asyncio.to_thread(stack.close)


def port_of(process: GatewayProcess, instance_id: str) -> int:
    return int(process.bootstrap(instance_id).rpartition(":")[2])


async def throttled_window(
    process: GatewayProcess, flood: Callable[[list[int]], Awaitable[None]], floods: int
) -> tuple[float, list[int]]:
    """CPU seconds per second that a flood gets once its burst is spent, and the throttle_time_ms it was told.

    Beside it a polite tenant asks again and again, and is never held back.
    """
    account = Account(process)
    told: list[int] = []
    tasks = [asyncio.create_task(flood(told)) for _ in range(floods)]
    polite = await FrameClient.connect(port_of(process, POLITE))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (await account.now())(
                "cpu_throttled_seconds_total", instance=GREEDY, **{"for": "tenant"}
            ):
                await polite.call(one_topic())
        loop = asyncio.get_running_loop()
        first, began_s = await account.now(), loop.time()
        while loop.time() < began_s + WINDOW_S:
            assert (await polite.call(one_topic())).throttle_time == datetime.timedelta(0)
            await asyncio.sleep(0.02)
        last, ended_s = await account.now(), loop.time()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        polite.close()
    assert last("cpu_throttled_seconds_total", instance=POLITE, **{"for": "tenant"}) == 0
    spent = [at("cpu_seconds_total", instance=GREEDY, **{"for": "tenant"}) for at in (first, last)]
    return (spent[1] - spent[0]) / (ended_s - began_s), told


async def test_a_flood_of_listings_gets_its_share(worker_process: GatewayProcess) -> None:
    async def flood(told: list[int]) -> None:
        client = await FrameClient.connect(port_of(worker_process, GREEDY))
        while True:
            told.append(told_ms(await raw(client, all_topics()), all_topics()))

    rate, told = await throttled_window(worker_process, flood, CONNECTIONS)
    assert rate <= 1.1 * SHARE_US_PER_S / 1e6
    assert rate >= 0.5 * SHARE_US_PER_S / 1e6, "what it bought it gets"
    assert max(told) > 0


async def test_a_storm_of_connections_gets_its_share(worker_process: GatewayProcess) -> None:
    async def flood(told: list[int]) -> None:
        while True:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                client = await FrameClient.connect(port_of(worker_process, GREEDY))
                told.append(told_ms(await raw(client, one_topic()), one_topic()))
                client.close()

    rate, _ = await throttled_window(worker_process, flood, 20)
    assert rate <= 1.1 * SHARE_US_PER_S / 1e6


async def test_strangers_spend_a_budget_of_their_own(broker: FakeBroker, tmp_path: Path) -> None:
    spec = instance_spec(A, request_percent=10, allow_all=False, whitelist=("127.0.0.2/32",))
    stack = contextlib.ExitStack()
    process = await asyncio.to_thread(
        stack.enter_context, running_gateway_process(tmp_path, broker.port, spec)
    )
    try:
        port = port_of(process, A)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        tenant = FrameClient(reader, writer)
        account = Account(process)

        async def storm() -> None:
            while True:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    stranger = await FrameClient.connect(port)
                    await stranger.ended()
                    stranger.close()

        storms = [asyncio.create_task(storm()) for _ in range(40)]
        loop = asyncio.get_running_loop()
        first, began_s = await account.now(), loop.time()
        while loop.time() < began_s + WINDOW_S / 2:
            await tenant.call(one_topic())
            await asyncio.sleep(0.02)
        last, elapsed_s = await account.now(), loop.time() - began_s
        for task in storms:
            task.cancel()
        await asyncio.gather(*storms, return_exceptions=True)
        refused = last("connections_refused_total", instance=A, cause="not_whitelisted")
        strangers, own = (
            last("cpu_seconds_total", instance=A, **{"for": who}) for who in ("strangers", "tenant")
        )
        assert refused > 100 and strangers > 0
        assert strangers <= STRANGERS_US_PER_S / 1e6 * (elapsed_s + 1) * 1.1
        per_request = own / last("requests_total", instance=A, api="metadata")
        assert per_request < 0.005, "what strangers cost is not on the tenant's account"
        assert first("cpu_throttled_seconds_total", instance=A, **{"for": "tenant"}) == 0
        assert last("cpu_throttled_seconds_total", instance=A, **{"for": "tenant"}) == 0
    finally:
        await asyncio.to_thread(stack.close)
