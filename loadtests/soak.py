"""Standard clients at a steady rate, for as long as one likes: is anything lost, does anything grow?

Each instance has a producer and a consumer (librdkafka) and numbered records. Each that is consumed is
looked at: none may be missing, come twice or out of order. Memory and descriptors of the stack's processes
are sampled all along.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import Final

import gevent
from confluent_kafka import Consumer, Producer, TopicPartition
from locust import User, constant, task
from locust.exception import StopUser

from ctl.bench.load import create_topic
from loadtests.bounds import Better, Figure
from loadtests.ledger import Ledger
from loadtests.place import Made
from loadtests.processes import Watch
from loadtests.report import Outcome, Plot
from loadtests.scenario import Site, Turns, swarm, tell
from loadtests.timings import Timings

TOPIC: Final = "soak"
RECORD_BYTES: Final = 1000
_STAMP: Final = "{:020.6f} {:020d} "
_STAMP_BYTES: Final = len(_STAMP.format(0.0, 0))
_TICK_S: Final = 0.02
_DRAIN_S: Final = 60.0
_SEEN_EVERY: Final = 20
"""One in so many records is told to locust: the others are counted, only."""


def add_options(parser: argparse._ArgumentGroup) -> None:
    """How many, how fast, how long."""
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500_000, help="bytes/s of each; twice as much is bought")
    parser.add_argument("--seconds", type=float, default=120.0)


class Pair(User):
    """A producer and a consumer of one instance."""

    wait_time = constant(0)
    soak: "Soak"

    def on_start(self) -> None:
        """Take an instance."""
        number = self.soak.next_number()
        self._ledger = self.soak.ledgers[number]
        endpoint = self.soak.made[number].endpoint
        servers = {"bootstrap.servers": f"{endpoint.host}:{endpoint.port}"}
        self._producer = Producer(servers | {"acks": "all", "enable.idempotence": True, "linger.ms": 5})
        self._consumer = Consumer(servers | {"group.id": "soak", "auto.offset.reset": "earliest"})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._padding = b"x" * (RECORD_BYTES - _STAMP_BYTES)

    def on_stop(self) -> None:
        """Hang up."""
        self._consumer.close()

    @task
    def soak_all(self) -> None:
        """Produce on schedule, read what comes; at the end until all is there."""
        soak, ledger = self.soak, self._ledger
        while (now_s := time.monotonic()) < soak.end_s:
            due = int(max(0.0, now_s - soak.start_s) * soak.rate / RECORD_BYTES)
            while ledger.sent < due and self._send(ledger):
                pass
            self._producer.poll(0)
            self._read()
            gevent.sleep(_TICK_S)
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline and (
            len(self._producer) or ledger.next_number < ledger.sent - ledger.refused
        ):
            self._producer.poll(0)
            self._read()
            gevent.sleep(_TICK_S)
        soak.ended += 1
        raise StopUser

    def _send(self, ledger: Ledger) -> bool:
        """False: the client's queue is full."""

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                ledger.refused += 1

        value = _STAMP.format(time.monotonic(), ledger.sent).encode() + self._padding
        try:
            self._producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
        except BufferError:
            return False
        ledger.sent += 1
        return True

    def _read(self) -> None:
        for message in self._consumer.consume(5_000, 0):
            fault = message.error()
            if fault is None:
                sent_s, number = message.value()[:_STAMP_BYTES].split()
                self._ledger.see(int(number))
                if int(number) % _SEEN_EVERY:
                    continue
                self._tell((time.monotonic() - float(sent_s)) * 1000, None)
            else:
                self._tell(math.nan, RuntimeError(str(fault)))

    def _tell(self, took_ms: float, fault: Exception | None) -> None:
        tell(self, "soak", "produced to consumed", took_ms, RECORD_BYTES, fault)


class Soak(Turns):
    """One run."""

    def __init__(self, made: list[Made], options: argparse.Namespace) -> None:
        super().__init__()
        self.made = made
        self.rate = options.rate
        self.ledgers = [Ledger() for _ in made]
        self.start_s = time.monotonic() + 1.0
        self.end_s = self.start_s + options.seconds


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure."""
    rates = {f"{name}_rate_bytes_per_s": 2 * options.rate for name in ("produce", "consume")}
    capacity = max(100_000_000, int(2 * options.rate * options.seconds))
    made = [
        site.place.instance("soak", {**rates, "capacity_bytes": capacity}) for _ in range(options.instances)
    ]
    for one in made:
        create_topic(one.endpoint, TOPIC)
    soak, timings, watch = Soak(made, options), Timings(), Watch(site.data_dir)
    with swarm([Pair], len(made), len(made), timings, soak=soak):
        soak.wait(len(made), soak.end_s + 2 * _DRAIN_S)
    watch.stop()
    return _told(soak, timings, watch, options.seconds)


def _told(soak: Soak, timings: Timings, watch: Watch, seconds: float) -> Outcome:
    def total(count: Callable[[Ledger], int]) -> int:
        return sum(count(ledger) for ledger in soak.ledgers)

    wanted = seconds * soak.rate / RECORD_BYTES * len(soak.ledgers)
    figures = [
        Figure("lost", total(lambda one: one.lost)),
        Figure("repeated", total(lambda one: one.repeated)),
        Figure("refused", total(lambda one: one.refused)),
        Figure("failures", timings.failures()),
        Figure("delivered_share", total(lambda one: one.seen) / wanted),
        Figure("p50_ms", timings.percentile_ms(0.5), Better.LOWER, tolerance=1.0),
        Figure("p99_ms", timings.percentile_ms(0.99), Better.LOWER, tolerance=1.0),
        Figure("memory_growth", watch.growth("rss_bytes"), Better.LOWER, tolerance=0.3),
        Figure("descriptor_growth", watch.growth("descriptors"), Better.LOWER, tolerance=0.3),
        Figure("cores", watch.cpu_s() / seconds, Better.LOWER),
    ]
    plots = [
        Plot("latency", "From produce to the consumer's hands", "s", "ms", timings.dots(), log_y=True),
        Plot("memory", "Memory of the processes", "s", "MB", watch.memory()),
        Plot("descriptors", "Open descriptors", "s", "descriptors", watch.descriptors()),
    ]
    title = f"{len(soak.made)} instances with {soak.rate / 1e6:g} MB/s each for {seconds:g} s"
    details: dict[str, object] = {"ledgers": [vars(ledger) for ledger in soak.ledgers]}
    return Outcome(title, figures, plots, timings.lines(), details)
