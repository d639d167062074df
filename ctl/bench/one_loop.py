"""A broker and a gateway in front of it on one asyncio loop, and a meter of every turn that loop takes.

A turn is one callback: while it runs, nobody else on the loop is served. Turns are told apart by whose code
runs, so that a client on the same loop is not counted.
"""

import asyncio
import contextlib
import struct
from asyncio import events
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.app import Broker
from broker.config import BrokerConfig
from contracts.specs import BrokerAddress, ClusterSpec, InstanceSpec, InstanceState, Limits, Listener
from ctl.stack.layout import free_port
from gateway.app import Gateway
from gateway.config import GatewayConfig
from runtime.kafka_client import KafkaConnection
from traffic.turns import Step, Turns
from traffic.turns import Turn as InstanceTurn
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import framed_request, request_class

INSTANCE: Final = "iaaaaaaaaaaa"
_CLUSTER: Final = "one-loop"
_HOST: Final = "127.0.0.1"
_TOPICS_AT_ONCE: Final = 100
_ANSWER_S: Final = 20.0


class Turn(NamedTuple):
    """One callback of a gateway's or broker's code."""

    whose: str
    """`gateway` or `broker`."""
    cost: float
    what: str


Meter = Callable[[Callable[[], None]], float]
"""Runs a callback and answers what it cost."""
Owner = Callable[[object], tuple[str, str]]


class Pair:
    """The two, running, with an instance that has topics."""

    def __init__(self, broker: Broker, gateway: Gateway, port: int, topics: Sequence[str]) -> None:
        self.broker = broker
        self.gateway = gateway
        self.port = port
        """The instance's port."""
        self.topics = topics

    async def answer(self, request: Any) -> int | None:
        """The size of the answer to a request on a connection of its own; None: closed, or no answer."""
        reader, writer = await asyncio.open_connection(_HOST, self.port)
        try:
            async with asyncio.timeout(_ANSWER_S):
                writer.write(framed_request(request, 1, "c"))
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                left = int(size)
                while left:
                    left -= len(await reader.read(min(left, 1 << 20))) or left
                return int(size)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return None
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def running_pair(
    directory: Path, topics: int, topic_whitelists: dict[str, tuple[str, ...]] | None = None
) -> AsyncIterator[Pair]:
    """A pair whose instance has so many topics of one partition, `topic-0` and on."""
    broker = Broker(BrokerConfig(node_id=1, cluster_id=_CLUSTER, data_dir=directory, listen_port=0))
    gateway = Gateway(GatewayConfig(name="gateway-0"))
    broker_port = await broker.start()
    gateway.start()
    try:
        spec = _spec(topics, topic_whitelists or {})
        address = BrokerAddress(node_id=1, host=_HOST, port=broker_port)
        gateway.follower.apply_static(
            [spec], [ClusterSpec(revision=1, cluster_id=_CLUSTER, brokers=(address,))]
        )
        port = spec.listeners[1].port
        names = [f"topic-{number}" for number in range(topics)]
        await _create(broker_port, names)
        yield Pair(broker, gateway, port, names)
    finally:
        await gateway.aclose()
        await broker.stop()


def _spec(topics: int, topic_whitelists: dict[str, tuple[str, ...]]) -> InstanceSpec:
    rate = 10**12
    return InstanceSpec(
        revision=1,
        instance_id=INSTANCE,
        tenant="bench",
        name="bench",
        state=InstanceState.ACTIVE,
        cluster_id=_CLUSTER,
        produce_rate_bytes_per_s=rate,
        consume_rate_bytes_per_s=rate,
        capacity_bytes=rate,
        limits=Limits(partitions_max=topics + 100),
        allow_all=True,
        topic_whitelists=topic_whitelists,
        listeners=tuple(
            Listener(node_id=node, bind_host=_HOST, advertised_host=_HOST, port=free_port())
            for node in (None, 1)
        ),
    )


async def _create(broker_port: int, names: Sequence[str]) -> None:
    create = request_class(ApiKey.CREATE_TOPICS, 4)
    connection = await KafkaConnection.open(_HOST, broker_port, secret=None, client_id="bench")
    try:
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            topics = [
                {"name": f"{INSTANCE}.{name}", "num_partitions": 1, "replication_factor": -1}
                for name in names[start : start + _TOPICS_AT_ONCE]
            ]
            await connection.call(build(create, {"topics": topics}))
    finally:
        connection.close()


@contextlib.contextmanager
def metered(meter: Meter, owner: Owner | None = None) -> Iterator[list[Turn]]:
    """Every turn while the block runs, and every step that had to wait for its instance's. `owner` says of
    a callback whose it is, and its name; where it is nobody's, it is not metered.

    For loops of asyncio itself; others have no callbacks to look at.
    """
    turns: list[Turn] = []
    owner = owner or _owner
    handle_class: Any = events.Handle  # the only place that all callbacks of a loop come by
    run = handle_class._run
    take = Turns.take

    def measured(handle: Any) -> None:
        whose, what = owner(handle._callback)
        if whose:
            turns.append(Turn(whose, meter(lambda: run(handle)), what))
        else:
            run(handle)

    def taken(waiting: Turns, turn: InstanceTurn) -> Step | None:
        step = take(waiting, turn)
        if step is None:
            return None
        whose, what = owner(step)
        return (lambda: turns.append(Turn(whose, meter(step), what))) if whose else step

    try:
        handle_class._run = measured
        Turns.take = taken  # type: ignore[method-assign, assignment]
        yield turns
    finally:
        handle_class._run = run
        Turns.take = take  # type: ignore[method-assign]


def _owner(callback: Any) -> tuple[str, str]:
    """Whose a callback is, and its name; ("", "") for nobody's."""
    bound = getattr(callback, "__self__", None)
    if isinstance(bound, asyncio.Task):
        coroutine: Any = bound.get_coro()
        place, name = coroutine.cr_code.co_filename, coroutine.__qualname__
        module = Path(place).parent.name if Path(place).parent.name in ("gateway", "broker") else ""
        return module or _package(place), name
    module = type(bound).__module__ if bound is not None else getattr(callback, "__module__", "") or ""
    package = module.partition(".")[0]
    return (package if package in ("gateway", "broker") else ""), getattr(callback, "__qualname__", "?")


def _package(place: str) -> str:
    return next((package for package in ("gateway", "broker") if f"/{package}/" in place), "")
