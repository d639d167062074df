"""One instance offered less and more than it bought, step by step: what is delivered, and how late?"""

import argparse
import math
import time
from collections import deque
from typing import Final, NamedTuple

import gevent
import gevent.event
from locust import User, constant, task
from locust.exception import StopUser

from ctl.bench.load import Client, create_topic, fetch_frame, produce_frames, workload
from ctl.bench.measure import percentile
from loadtests.bounds import Better, Figure
from loadtests.place import Made
from loadtests.report import Outcome, Plot, Series
from loadtests.scenario import Site, swarm, tell
from loadtests.timings import Timings

TOPIC: Final = "sweep"
SHARES: Final = (0.25, 0.5, 0.75, 0.9, 1.25, 1.5, 2.0)
"""Shares of what was bought; none is so near to it that its step says nothing."""
REQUEST_BYTES: Final = 50_000
_STORED: Final = 40
"""Requests' worth of records that are read again and again."""
_WINDOW: Final = 8
"""Unanswered requests, beyond which the client sends later than it wants to."""
_SETTLED: Final = 0.4
"""Share of a step that is not counted, while a burst or a debt of the one before is paid."""
_END_S: Final = 30.0


def add_options(parser: argparse._ArgumentGroup) -> None:
    """Direction, rate, time."""
    parser.add_argument("--direction", choices=["produce", "consume"], default="produce")
    parser.add_argument("--rate", type=int, default=5_000_000, help="bytes/s that are bought")
    parser.add_argument("--step-s", type=float, default=8.0, help="seconds of each of the seven steps")


def run_name(options: argparse.Namespace) -> str:
    """A baseline for each direction."""
    return f"rate-sweep-{options.direction}"


class Answered(NamedTuple):
    """One request."""

    due_s: float
    at_s: float
    size: int
    """Bytes that count."""


class Step(NamedTuple):
    """What one step found."""

    share: float
    delivered: float
    """Bytes/s, by the rate that was bought."""
    p99_ms: float


class Sweeper(User):
    """Sends on schedule as long as no more than a window is unanswered."""

    fixed_count = 1
    wait_time = constant(0)
    sweep: "Sweep"

    @task
    def sweep_all(self) -> None:
        """Every step, on one connection."""
        client = Client(self.sweep.made.endpoint)
        due: deque[float] = deque()
        reader = gevent.spawn(self._read, client, due)
        try:
            for number, share in enumerate(SHARES):
                self._step(client, due, number, share)
            with gevent.Timeout(_END_S, False):
                while due:
                    gevent.sleep(0.01)
            self.sweep.unanswered = len(due)
        finally:
            reader.kill()
            client.socket.close()
            self.sweep.done.set()
        raise StopUser

    def _step(self, client: Client, due: deque[float], number: int, share: float) -> None:
        sweep = self.sweep
        sweep.starts_s[number] = next_s = time.monotonic()
        end_s = next_s + sweep.step_s
        period_s = REQUEST_BYTES / (share * sweep.rate)
        while next_s < end_s:
            gevent.sleep(max(0.0, next_s - time.monotonic()))
            while len(due) >= _WINDOW and time.monotonic() < end_s:
                gevent.sleep(0.001)
            if time.monotonic() >= end_s:
                break
            due.append(next_s)
            client.socket.sendall(sweep.frame())
            next_s += period_s

    def _read(self, client: Client, due: deque[float]) -> None:
        while True:
            size = client.receive() + 4
            due_s, now_s = due.popleft(), time.monotonic()
            self.sweep.answers.append(Answered(due_s, now_s, self.sweep.counted(size)))
            tell(self, "sweep", self.sweep.direction, (now_s - due_s) * 1000, size)


class Sweep:
    """One run."""

    def __init__(self, made: Made, options: argparse.Namespace) -> None:
        self.made = made
        self.direction = options.direction
        self.rate, self.step_s = options.rate, options.step_s
        self.starts_s = [math.nan] * len(SHARES)
        self.answers: list[Answered] = []
        self.unanswered = 0
        self.done = gevent.event.Event()
        work = workload(REQUEST_BYTES)
        self._produced = produce_frames(TOPIC, work, 1)[0]
        self._fetches = [
            fetch_frame(TOPIC, number * work.records, len(work.batch)) for number in range(_STORED)
        ]
        self._sent = 0

    def store(self) -> None:
        """What is read later."""
        client = Client(self.made.endpoint)
        for _ in range(_STORED + 1):
            client.exchange(self._produced)
        client.socket.close()

    def frame(self) -> bytes:
        """The next request."""
        self._sent += 1
        return self._produced if self.direction == "produce" else self._fetches[self._sent % _STORED]

    def counted(self, answer_bytes: int) -> int:
        """What a request and its answer have carried in the direction that is swept."""
        return len(self._produced) if self.direction == "produce" else answer_bytes

    def steps(self) -> list[Step]:
        """What was delivered in the counted part of each."""
        found = []
        for start_s, share in zip(self.starts_s, SHARES, strict=True):
            from_s, end_s = start_s + _SETTLED * self.step_s, start_s + self.step_s
            within = [one for one in self.answers if from_s <= one.at_s < end_s]
            delivered = sum(one.size for one in within) / (end_s - from_s) / self.rate
            took_ms = [(one.at_s - one.due_s) * 1000 for one in within]
            found.append(Step(share, delivered, percentile(took_ms, 0.99) if took_ms else math.nan))
        return found


def run(site: Site, options: argparse.Namespace) -> Outcome:
    """Make the load and measure."""
    rates = {f"{name}_rate_bytes_per_s": options.rate for name in ("produce", "consume")}
    sweep, timings = Sweep(site.place.instance("sweep", rates), options), Timings()
    create_topic(sweep.made.endpoint, TOPIC)
    sweep.store()
    longest_s = options.step_s * len(SHARES) + 2 * _END_S
    with swarm([Sweeper], 1, 1, timings, sweep=sweep):
        if not sweep.done.wait(longest_s):
            raise RuntimeError("the sweep did not end")
    return _told(sweep, sweep.steps(), timings)


def _told(sweep: Sweep, steps: list[Step], timings: Timings) -> Outcome:
    below = [step for step in steps if step.share < 1]
    above = [step for step in steps if step.share > 1]
    figures = [
        Figure("below_delivered_min", min(step.delivered / step.share for step in below)),
        Figure("above_delivered_max", max(step.delivered for step in above)),
        Figure("above_delivered_min", min(step.delivered for step in above)),
        Figure("unanswered", sweep.unanswered),
        Figure("failures", timings.failures()),
        Figure("below_p99_ms", max(step.p99_ms for step in below), Better.LOWER, tolerance=1.0),
    ]
    lines = ["offered / bought   delivered / bought    p99 ms"]
    lines += [f"{step.share:>16.2f}{step.delivered:>21.3f}{step.p99_ms:>10.1f}" for step in steps]
    delivered = Series("delivered", [(step.share, step.delivered) for step in steps])
    promised = Series("bought and offered", [(step.share, min(1.0, step.share)) for step in steps])
    plots = [
        Plot("delivered", "Delivered of what was offered", "offered / bought", "delivered / bought",
             [delivered, promised]),
        Plot("latency", "How late", "offered / bought", "p99 ms",
             [Series("p99", [(step.share, step.p99_ms) for step in steps])], log_y=True),
    ]  # fmt: skip
    title = f"{sweep.direction}: {sweep.rate / 1e6:g} MB/s bought, less and more offered"
    return Outcome(title, figures, plots, lines, {"steps": [step._asdict() for step in steps]})
