"""A fleet of clients that all come at once, are cut off, and come again: how long until everybody is served?

Each client connects, asks for ApiVersions and Metadata, produces one record, and stays. When all are there,
all hang up and come again at once, as after a restart of their own platform.
"""

import argparse
import time
from typing import Any, Final

import gevent
import gevent.event
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from locust import User, constant, task
from locust.exception import StopUser

from ctl.bench.load import Client, create_topic, metadata_frame, produce_frames, workload
from loadtests.bounds import Better, Figure
from loadtests.place import Made
from loadtests.processes import Watch
from loadtests.report import Outcome, Plot, Series
from loadtests.scenario import Site, swarm, tell
from loadtests.timings import Timings
from wire.codec import framed_request

TOPIC: Final = "storm"
_ANSWER_BYTES_MAX: Final = 16_384
_HANG_UP_S: Final = 30.0
"""How long the gateways may take to notice that everybody has gone."""
_POLL_S: Final = 0.2


def add_options(parser: argparse._ArgumentGroup) -> None:
    """How many, how often."""
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--waves", type=int, default=3, help="how often all of them come")
    parser.add_argument("--wave-s", type=float, default=60.0, help="how long a wave may take at most")


class Member(User):
    """One client of the fleet."""

    wait_time = constant(0)
    storm: "Storm"

    @task
    def come(self) -> None:
        """Once per wave; then wait for the next."""
        for wave in self.storm.waves:
            wave.begins.wait()
            client = self._served(wave)
            wave.over.wait()
            if client is not None:
                client.socket.close()
        raise StopUser

    def _served(self, wave: "Wave") -> Client | None:
        """Until it is served, as clients do: who is refused tries again."""
        while not wave.over.is_set():
            fault: Exception | None = None
            started = time.monotonic()
            try:
                client = self.storm.connected()
            except OSError as error:
                fault = error
            tell(self, "storm", "refused" if fault else "served", (time.monotonic() - started) * 1000)
            if fault is None:
                wave.arrive(time.monotonic())
                return client
            gevent.sleep(0.05)
        return None


class Wave:
    """All come, and go."""

    def __init__(self, clients: int) -> None:
        self.begins = gevent.event.Event()
        self.full = gevent.event.Event()
        self.over = gevent.event.Event()
        self.began_s = 0.0
        self.arrived_s: list[float] = []
        """Since it began."""
        self._clients = clients

    def arrive(self, now_s: float) -> None:
        """One more is served."""
        self.arrived_s.append(now_s - self.began_s)
        if len(self.arrived_s) == self._clients:
            self.full.set()


class Storm:
    """One run."""

    def __init__(self, made: Made, options: argparse.Namespace) -> None:
        self._endpoint = made.endpoint
        self._hello = framed_request(ApiVersionsRequest(), 1, "storm")
        self._metadata = metadata_frame(TOPIC)
        self._record = produce_frames(TOPIC, workload(1), 1)[0]
        self.waves = [Wave(options.clients) for _ in range(options.waves)]

    def connected(self) -> Client:
        """A client that has what it needs. Raises: OSError."""
        client = Client(self._endpoint, answer_bytes_max=_ANSWER_BYTES_MAX)
        try:
            for frame in (self._hello, self._metadata, self._record):
                client.exchange(frame)
        except OSError:
            client.socket.close()
            raise
        return client


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure."""
    room = 2 * options.clients
    limits = {"connections_max": room, "connections_per_ip_max": room, "connection_rate_max": room}
    made = site.place.instance("storm", {"limits": limits})
    create_topic(made.endpoint, TOPIC)
    storm, timings, watch = Storm(made, options), Timings(), Watch(site.data_dir)
    with swarm([Member], options.clients, options.clients, timings, storm=storm):
        for wave in storm.waves:
            wave.began_s = time.monotonic()
            wave.begins.set()
            wave.full.wait(options.wave_s)
            wave.over.set()
    left = _left(site, made)
    watch.stop()
    return _told(storm, timings, watch, left, options.clients)


def _left(site: Site, made: Made) -> int:
    """Connections that the gateways still count when everybody has hung up."""
    deadline = time.monotonic() + _HANG_UP_S
    while True:
        left: int = site.place.console.get(f"instances/{made.id}")["connections"]
        if not left or time.monotonic() > deadline:
            return left
        gevent.sleep(_POLL_S)


def _told(storm: Storm, timings: Timings, watch: Watch, left: int, clients: int) -> Outcome:
    served = min(len(wave.arrived_s) for wave in storm.waves) / clients
    full_s = max(max(wave.arrived_s, default=float("nan")) for wave in storm.waves)
    figures = [
        Figure("served_share", served),
        Figure("all_served_s", full_s, Better.LOWER, tolerance=1.0),
        Figure("served_p50_ms", timings.percentile_ms(0.5, "served"), Better.LOWER, tolerance=1.0),
        Figure("served_p99_ms", timings.percentile_ms(0.99, "served"), Better.LOWER, tolerance=1.0),
        Figure("refused", len(timings.ms("refused"))),
        Figure("left_open", left),
        Figure("cpu_ms_per_client", watch.cpu_s() * 1000 / clients / len(storm.waves)),
    ]
    arrivals: list[Any] = [
        Series(f"wave {number}", [(at_s, count) for count, at_s in enumerate(sorted(wave.arrived_s), 1)])
        for number, wave in enumerate(storm.waves, 1)
    ]
    plots = [
        Plot("arrivals", "Clients that are served", "s since the wave began", "clients", arrivals),
        Plot("memory", "Memory of the processes", "s", "MB", watch.memory()),
    ]
    title = f"{clients} clients that come at once, {len(storm.waves)} times"
    return Outcome(title, figures, plots, timings.lines())
