"""What a scenario is given, and how locust's users are run for it."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from locust import User
from locust.env import Environment
from locust.runners import LocalRunner

from loadtests.place import Place
from loadtests.report import Outcome
from loadtests.timings import Timings


class Site(NamedTuple):
    """Where a scenario makes its load."""

    place: Place
    data_dir: Path | None
    """The stack's data directory, where it runs on this machine."""


class Scenario(Protocol):
    """A module with these."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """What can be chosen; everything has a bounded default."""
        ...

    def run_name(self, options: argparse.Namespace) -> str:
        """The name of reports and baselines."""
        ...

    def run(self, site: Site, options: argparse.Namespace) -> Outcome:
        """Make the load, measure, and tell."""
        ...


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
