"""One gateway worker with thousands of instances, fed by a control plane of this benchmark's own: start,
memory, open files, how soon a change is served, and how long the loop is held by changes.

The addresses are those of a pool on loopback. Nobody connects: what instances cost that are merely there is
measured.
"""

import asyncio
import gc
import ipaddress
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import msgspec

from contracts.specs import (
    BrokerAddress,
    ClusterSpec,
    FeedRequest,
    FeedResponse,
    InstanceSpec,
    InstanceState,
    Limits,
    Listener,
)
from ctl.bench.measure import Say, Spread, rss_bytes
from ctl.bench.one_loop import metered
from ctl.bench.process import HOST, ServerProcess
from ctl.stack.layout import free_port
from gateway.app import Gateway
from gateway.config import GatewayConfig
from runtime.logs import configure
from runtime.process import collect_seldom

BROKERS: Final = 3
POOL: Final = "127.64.0.0/17"
_CLUSTER_ID: Final = "bench"
_CHANGES: Final = 20
_SECRET: Final = "bench"


def made_specs(count: int, first_port: int, pool: str = POOL) -> list[InstanceSpec]:
    """Instances with a bootstrap listener and one per broker, one port of every address before the next."""
    hosts = [str(host) for host in ipaddress.ip_network(pool).hosts()]
    endpoints = ((host, port) for port in range(first_port, 65536) for host in hosts)
    nodes = (None, *range(1, BROKERS + 1))
    return [_spec(number, [(node, *next(endpoints)) for node in nodes]) for number in range(count)]


def _spec(number: int, places: Sequence[tuple[int | None, str, int]]) -> InstanceSpec:
    return InstanceSpec(
        revision=number + 1,
        instance_id=f"i{number:011d}",
        tenant=f"tenant-{number % 500}",
        name=f"instance-{number}",
        state=InstanceState.ACTIVE,
        cluster_id=_CLUSTER_ID,
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=2 * 10**6,
        capacity_bytes=10**10,
        limits=Limits(),
        whitelist=("127.0.0.0/8", "10.0.0.0/8"),
        listeners=tuple(
            Listener(node_id=node, bind_host=host, advertised_host=host, port=port)
            for node, host, port in places
        ),
    )


class Feed:
    """A control plane that tells of given instances, and notes when which revision was acknowledged."""

    def __init__(self, specs: Sequence[InstanceSpec]) -> None:
        self.specs = {spec.instance_id: spec for spec in specs}
        self.revision = len(specs) + 1
        self.acknowledged = 0
        self._news = threading.Condition()
        brokers = tuple(BrokerAddress(node_id=node, host=HOST, port=1) for node in range(1, BROKERS + 1))
        self._cluster = ClusterSpec(revision=self.revision, cluster_id=_CLUSTER_ID, brokers=brokers)

    def change(self, specs: Sequence[InstanceSpec]) -> None:
        """Have these told under new revisions."""
        with self._news:
            for spec in specs:
                self.revision += 1
                self.specs[spec.instance_id] = msgspec.structs.replace(spec, revision=self.revision)
            self._news.notify_all()

    def until_acknowledged(self, timeout_s: float = 60) -> None:
        """Wait until the last revision is. Raises: TimeoutError."""
        with self._news:
            if not self._news.wait_for(lambda: self.acknowledged == self.revision, timeout_s):
                raise TimeoutError(f"revision {self.revision} was not acknowledged, {self.acknowledged} was")

    def answer(self, request: FeedRequest) -> FeedResponse:
        """What a follower is told next, once there is something."""
        with self._news:
            self.acknowledged = request.applied_revision
            self._news.notify_all()
            self._news.wait_for(lambda: self.revision > request.applied_revision, request.wait_ms / 1000)
            after = request.applied_revision
            changed = tuple(spec for spec in self.specs.values() if spec.revision > after)
            clusters = () if after else (self._cluster,)
            return FeedResponse(
                feed_id="bench",
                revision=self.revision,
                full=not after,
                mark="m",
                instances=changed,
                clusters=clusters,
            )


@contextmanager
def serving(feed: Feed) -> Iterator[str]:
    """The feed over HTTP, on threads; reports of gateways are taken and forgotten."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = b"{}"
            if self.path.endswith("/feed"):
                answer = msgspec.json.encode(feed.answer(msgspec.json.decode(body, type=FeedRequest)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(count: int, say: Say) -> dict[str, object]:
    """Figures of a worker as a process, and of its loop."""
    configure("bench", level=logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        say(f"a worker with {count} instances")
        found: dict[str, object] = {f"{count} instances": _of_process(Path(directory), count)}
        say("the worker's loop")
        found["longest turn, ms of CPU"] = asyncio.run(_of_loop(Path(directory), count))
    return found


def _of_process(directory: Path, count: int) -> dict[str, object]:
    feed = Feed(made_specs(count, free_port()))
    run_file, secret_file = directory / "gateway.json", directory / "secret"
    secret_file.write_text(_SECRET)
    with serving(feed) as url:
        command = [sys.executable, "-m", "runtime.start", "gateway", "--name", "gateway-0", "--control", url]
        command += ["--secret-file", str(secret_file), "--run-file", str(run_file), "--wildcard-for", POOL]
        command += ["--state-dir", str(directory / "state"), "--metrics", f"{HOST}:0"]
        server = ServerProcess(
            "gateway", 0, command, directory / "gateway.log", serves=lambda *_: run_file.exists()
        )
        began = time.perf_counter()
        server.start()
        try:
            server.until_serving()
            feed.until_acknowledged()
            started_s = time.perf_counter() - began
            changes = [_served_after_ms(feed, [spec]) for spec in list(feed.specs.values())[:_CHANGES]]
            every_ms = _served_after_ms(feed, list(feed.specs.values()))
            again_s = _restarted(server, run_file, feed)
            descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
            return {
                "from nothing to serving, s": started_s,
                "the same from its own files, s": again_s,
                "memory, MB": rss_bytes(server.pid) / 1e6,
                "open files": descriptors,
                "a change, ms until acknowledged": Spread.of(changes),
                "a change of all, ms until acknowledged": every_ms,
            }
        finally:
            server.stop()


def _served_after_ms(feed: Feed, specs: Sequence[InstanceSpec]) -> float:
    began = time.perf_counter()
    feed.change(
        [msgspec.structs.replace(spec, whitelist=(*spec.whitelist, "192.0.2.0/24")) for spec in specs]
    )
    feed.until_acknowledged()
    return (time.perf_counter() - began) * 1e3


def _restarted(server: ServerProcess, run_file: Path, feed: Feed) -> float:
    server.stop()
    run_file.unlink()
    feed.acknowledged = 0
    began = time.perf_counter()
    server.start()
    server.until_serving()
    feed.until_acknowledged()
    return time.perf_counter() - began


async def _of_loop(directory: Path, count: int) -> dict[str, object]:
    feed = Feed(made_specs(count, free_port()))
    secret_file = directory / "secret"
    with serving(feed) as url:
        gateway = Gateway(
            GatewayConfig(
                name="gateway-0",
                control_url=url,
                secret_file=secret_file,
                state_dir=directory / "state-2",
                wildcard_for=(POOL,),
            )
        )
        gc.collect()
        collect_seldom()  # as the process does at its start
        found: dict[str, object] = {}
        with metered(_cpu_ms, lambda _: ("gateway", "")) as turns:
            gateway.start()
            try:
                for what, change in (
                    ("all are told of", list[InstanceSpec]()),
                    ("one changes", list(feed.specs.values())[:1]),
                    ("all change", list(feed.specs.values())),
                ):
                    turns.clear()
                    feed.change(change)
                    await asyncio.to_thread(feed.until_acknowledged)
                    found[what] = max(turn.cost for turn in turns)
            finally:
                await gateway.aclose()
        return found


def _cpu_ms(work: Callable[[], None]) -> float:
    started = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - started) / 1e6
