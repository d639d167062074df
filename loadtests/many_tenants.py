"""Hundreds of tenants, each with an instance, all with a little traffic: does each get what it sends?"""

import argparse
import time
from collections import Counter
from typing import Final

import gevent
from locust import User, constant, task
from locust.exception import StopUser

from ctl.bench.load import Client, create_topic, produce_frames, workload
from ctl.bench.measure import percentile
from loadtests.bounds import Better, Figure
from loadtests.place import Made
from loadtests.processes import Watch
from loadtests.report import Outcome, Plot, Series
from loadtests.scenario import Site, Turns, swarm, tell
from loadtests.timings import Timings

TOPIC: Final = "little"
RECORD_BYTES: Final = 1000
_ANSWER_BYTES_MAX: Final = 16_384
_SPARE: Final = 100
"""Instances of others that may be there: what the cluster sells is not touched below that."""
_BOUGHT: Final = {
    "produce_rate_bytes_per_s": 100_000,
    "consume_rate_bytes_per_s": 100_000,
    "capacity_bytes": 100_000_000,
    "limits": {"partitions_max": 10, "connections_max": 20},
}
_ROOM: Final = {
    "instances": 2,
    "produce_rate_bytes_per_s": 1_000_000,
    "consume_rate_bytes_per_s": 1_000_000,
    "capacity_bytes": 1_000_000_000,
    "partitions": 100,
    "connections": 1_000,
}


def add_options(parser: argparse._ArgumentGroup) -> None:
    """How many, how long."""
    parser.add_argument("--tenants", type=int, default=500, help="they stay for later runs")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--period-s", type=float, default=1.0, help="between two records of a tenant")


class Little(User):
    """One tenant's client: a record of a kilobyte on a schedule."""

    wait_time = constant(0)
    crowd: "Crowd"

    def on_start(self) -> None:
        """Take a place, and connect."""
        self._number = self.crowd.next_number()
        self._client = Client(self.crowd.made[self._number].endpoint, answer_bytes_max=_ANSWER_BYTES_MAX)
        self._frame = produce_frames(TOPIC, workload(RECORD_BYTES), 1)[0]
        # spread over the period, as clients that know nothing of each other are
        self._next_s = self.crowd.start_s + self.crowd.period_s * self._number / len(self.crowd.made)

    def on_stop(self) -> None:
        """Hang up."""
        self._client.socket.close()

    @task
    def send(self) -> None:
        """The next record, when it is due; one that waits to be sent has waited."""
        if self._next_s >= self.crowd.end_s:
            self.crowd.ended += 1
            raise StopUser
        gevent.sleep(max(0.0, self._next_s - time.monotonic()))
        fault: Exception | None = None
        try:
            self._client.exchange(self._frame)
            self.crowd.answered[self._number] += 1
        except OSError as error:
            fault = error
        tell(self, "produce", "one record", (time.monotonic() - self._next_s) * 1000, fault=fault)
        self._next_s += self.crowd.period_s


class Crowd(Turns):
    """One run."""

    def __init__(self, made: list[Made], options: argparse.Namespace) -> None:
        super().__init__()
        self.made = made
        self.period_s = options.period_s
        self.answered: Counter[int] = Counter()
        self.start_s = time.monotonic() + 2.0
        self.end_s = self.start_s + options.seconds


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure."""
    watch = Watch(site.data_dir)
    made, order_ms, serving_ms = _ordered(site, options.tenants)
    for one in made:
        create_topic(one.endpoint, TOPIC)
    timings, crowd = Timings(), Crowd(made, options)
    before_cpu_s = watch.cpu_s()
    with swarm([Little], len(made), len(made), timings, crowd=crowd):
        crowd.wait(len(made), crowd.end_s + 60.0)
    watch.stop()
    return _told(crowd, timings, watch, (order_ms, serving_ms), watch.cpu_s() - before_cpu_s, options)


def _ordered(site: Site, tenants: int) -> tuple[list[Made], list[float], list[float]]:
    """(instances, ms that each order took, ms until each served)."""
    place = site.place
    _make_room(site, tenants)
    known = {tenant["name"] for tenant in place.console.all_items("tenants")}
    orders: list[tuple[str, float]] = []
    order_ms: list[float] = []
    for number in range(tenants):
        tenant = f"loadtest-{number:04}"
        if tenant not in known:
            place.tenant(tenant, _ROOM)
        started = time.monotonic()
        orders.append((place.order("little", _BOUGHT, tenant=tenant), started))
        order_ms.append((time.monotonic() - started) * 1000)
    made, serving_ms = [], []
    for instance_id, started in orders:
        made.append(place.serving(instance_id))
        serving_ms.append((time.monotonic() - started) * 1000)
    return made, order_ms, serving_ms


def _make_room(site: Site, tenants: int) -> None:
    """A cluster sells 500 instances where nobody says otherwise."""
    for cluster in site.place.console.get("clusters")["items"]:
        left = cluster["left"]["instances"]
        if left < tenants:
            wanted = cluster["ceilings"]["instances"] + tenants - left + _SPARE
            site.place.console.call("PATCH", f"clusters/{cluster['name']}/ceilings", {"instances": wanted})


def _told(
    crowd: Crowd,
    timings: Timings,
    watch: Watch,
    ordered_ms: tuple[list[float], list[float]],
    cpu_s: float,
    options: argparse.Namespace,
) -> Outcome:
    order_ms, serving_ms = ordered_ms
    counts = [crowd.answered[number] for number in range(len(crowd.made))]
    wanted = options.seconds / options.period_s
    figures = [
        Figure("failures", timings.failures()),
        Figure("answered_share_min", min(counts) / wanted),
        Figure("produce_p50_ms", timings.percentile_ms(0.5), Better.LOWER, tolerance=1.0),
        Figure("produce_p99_ms", timings.percentile_ms(0.99), Better.LOWER, tolerance=1.0),
        Figure("order_p99_ms", percentile(order_ms, 0.99), Better.LOWER, tolerance=1.0),
        Figure("all_serving_s", max(serving_ms) / 1000, Better.LOWER, tolerance=1.0),
        Figure("cores", cpu_s / options.seconds, Better.LOWER),
    ]
    plots = [
        Plot("over-time", "Each record", "s", "ms", timings.dots(), log_y=True),
        Plot("orders", "How long an order took", "order", "ms", [Series("order", list(enumerate(order_ms)))]),
        Plot("memory", "Memory of the processes", "s", "MB", watch.memory()),
    ]
    title = f"{len(crowd.made)} tenants with a record each {options.period_s:g} s"
    return Outcome(title, figures, plots, timings.lines())
