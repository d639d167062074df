"""People and scripts at the console: pages, listings, quotas, topics that come and go. Is it quick?"""

import argparse
import random
import time
from typing import Final

import gevent
from locust import HttpUser, between, task

from loadtests.bounds import Better, Figure
from loadtests.processes import Watch
from loadtests.report import Outcome, Plot
from loadtests.scenario import Site, Turns, swarm
from loadtests.timings import Timings

INSTANCES: Final = 5
TOPICS: Final = 10
_READS: Final = ("list instances", "an instance", "its quota", "its topics", "its groups", "who am I")
_WRITES: Final = ("create a topic", "delete a topic")
_PAGES: Final = ("page",)


def add_options(parser: argparse._ArgumentGroup) -> None:
    """How many, how long."""
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--wait-s", type=float, default=1.0, help="mean pause of a user between two requests")


class Visitor(HttpUser):
    """Reads mostly; now and then makes a topic and removes it."""

    crowd: "Crowd"

    def on_start(self) -> None:
        """With a key of one's own."""
        self.client.trust_env = False
        key = self.crowd.keys[self.crowd.next_number() % len(self.crowd.keys)]
        self.client.headers["Authorization"] = f"Bearer {key}"
        self._made = 0

    def _path(self, end: str = "") -> str:
        instance: str = random.choice(self.crowd.instances)
        return f"/v1/instances/{instance}{end}"

    def _get(self, path: str, name: str) -> None:
        self.client.get(path, name=name)

    @task(5)
    def list_instances(self) -> None:
        """What a page shows first."""
        self._get("/v1/instances", "list instances")

    @task(4)
    def an_instance(self) -> None:
        """Its overview."""
        self._get(self._path(), "an instance")

    @task(4)
    def its_quota(self) -> None:
        """With a history of minutes."""
        self._get(self._path("/quota?seconds=300"), "its quota")

    @task(3)
    def its_topics(self) -> None:
        """Asked of the broker."""
        self._get(self._path("/topics"), "its topics")

    @task(2)
    def its_groups(self) -> None:
        """Asked of the broker."""
        self._get(self._path("/groups"), "its groups")

    @task(1)
    def who_am_i(self) -> None:
        """Asked by every page."""
        self._get("/v1/me", "who am I")

    @task(2)
    def page(self) -> None:
        """The pages' frame."""
        self._get("/", "page")

    @task(1)
    def a_topic(self) -> None:
        """Comes and goes."""
        self._made += 1
        path, topic = self._path("/topics"), f"visit-{id(self)}-{self._made}"
        made = self.client.post(path, json={"name": topic, "partitions": 1}, name="create a topic")
        if made.ok:
            self.client.delete(f"{path}/{topic}", name="delete a topic")


class Crowd(Turns):
    """What the users of one run share."""

    def __init__(self, instances: list[str], keys: list[str]) -> None:
        super().__init__()
        self.instances = instances
        self.keys = keys
        """A key for each user."""


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure."""
    place = site.place
    instances = [place.instance("visited").id for _ in range(INSTANCES)]
    for instance in instances:
        for number in range(TOPICS):
            body: dict[str, object] = {"name": f"topic-{number}", "partitions": 1}
            place.console.call("POST", f"instances/{instance}/topics", body)
    crowd = Crowd(instances, [place.key() for _ in range(options.users)])
    timings, watch = Timings(), Watch(site.data_dir)
    wait_time = between(0, 2 * options.wait_s)
    shared = {"crowd": crowd, "host": place.console.url, "wait_time": wait_time}
    started = time.monotonic()
    with swarm([Visitor], options.users, options.users, timings, **shared):
        gevent.sleep(options.seconds)
    seconds = time.monotonic() - started
    watch.stop()
    return _told(timings, watch, options.users, seconds)


def _told(timings: Timings, watch: Watch, users: int, seconds: float) -> Outcome:
    figures = [
        Figure("failures", timings.failures()),
        Figure("requests_per_s", timings.per_s()),
        Figure("read_p50_ms", timings.percentile_ms(0.5, *_READS), Better.LOWER, tolerance=1.0),
        Figure("read_p99_ms", timings.percentile_ms(0.99, *_READS), Better.LOWER, tolerance=1.0),
        Figure("write_p99_ms", timings.percentile_ms(0.99, *_WRITES), Better.LOWER, tolerance=1.0),
        Figure("page_p99_ms", timings.percentile_ms(0.99, *_PAGES), Better.LOWER, tolerance=1.0),
        Figure("cores", watch.cpu_s() / seconds, Better.LOWER),
    ]
    plots = [
        Plot("over-time", "Each request", "s", "ms", timings.dots(), log_y=True),
        Plot("memory", "Memory of the processes", "s", "MB", watch.memory()),
    ]
    return Outcome(f"{users} users at the console", figures, plots, timings.lines())
