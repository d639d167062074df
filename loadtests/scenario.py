"""What a scenario is given, and how locust's users are run for it.

A scenario is a module with `add_options(parser)`, each with a bounded default, and `run(site, options)`,
which makes the load, measures and tells an Outcome; `run_name(options)` where its reports and baselines have
several names.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gevent
from locust import User
from locust.env import Environment
from locust.runners import LocalRunner

from loadtests.place import Place
from loadtests.timings import Timings


class Site(NamedTuple):
    """Where a scenario makes its load."""

    place: Place
    data_dir: Path | None
    """The stack's data directory, where it runs on this machine."""


def tell(
    user: User, kind: str, name: str, took_ms: float, size: int = 0, fault: Exception | None = None
) -> None:
    """Have locust count a request of a user that speaks Kafka."""
    user.environment.events.request.fire(
        request_type=kind,
        name=name,
        response_time=took_ms,
        response_length=size,
        exception=fault,
        context={},
    )


class Turns:
    """What users of one run share: each takes the next number, and says when it has done all."""

    def __init__(self) -> None:
        self.ended = 0
        self._taken = 0

    def next_number(self) -> int:
        """The number of the next user."""
        self._taken += 1
        return self._taken - 1

    def wait(self, users: int, deadline_s: float) -> None:
        """Until so many have ended, or the deadline by the monotonic clock."""
        while self.ended < users and time.monotonic() < deadline_s:
            gevent.sleep(0.1)


@contextmanager
def swarm(
    users: Sequence[type[User]], count: int, spawn_rate: float, timings: Timings | None = None, **shared: Any
) -> Iterator[LocalRunner]:
    """So many users of locust, until the end of the block. `shared` are attributes of their classes."""
    classes = [type(user.__name__, (user,), dict(shared)) for user in users]
    environment = Environment(user_classes=classes)
    if timings is not None:
        environment.events.request.add_listener(timings.heard)
    runner = environment.create_local_runner()
    runner.start(count, spawn_rate)
    try:
        yield runner
    finally:
        runner.quit()
