"""Fixtures of all tests."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import Phase, is_hypothesis_test, settings

from contracts import invariants
from ctl.commands import selftest
from runtime.logs import for_people
from tests.servers.postgres import PostgresServer
from tests.servers.redis_server import RedisServer, running_redis
from tests.servers.smtp_server import SmtpServer, smtp_server_in_thread
from tests.stacks import whole_product

os.environ[invariants.VARIABLE] = "1"  # for processes that tests start
invariants.check_if_asked(os.environ)
_HERE = Path(__file__).parent
_configure_logs = structlog.configure


def _configure_uncached(**wishes: Any) -> None:
    """A logger that was cached would go on writing to what a test's command took for stderr."""
    _configure_logs(**wishes | {"cache_logger_on_first_use": False})


structlog.configure = _configure_uncached
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], for_people()])

# No property has a deadline: how long an example takes is the machine's business.
settings.register_profile("portico", deadline=None)
# What `.ci/run` uses: fewer examples, others each time.
settings.register_profile("ci", deadline=None)
# A test runs once for each of thousands of mutants: few examples, the same each time, none made small for us.
settings.register_profile(
    "mutants", deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "portico"))
_EXAMPLES_MAX = {"ci": 40, "mutants": 25}.get(settings.get_current_profile_name())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a tier are where it looks for them; what a property asks for, some profiles cut short."""
    for tier in selftest.TIERS.keys() - {"long"}:
        marked = {item.path for item in items if item.get_closest_marker(tier)}
        places = {Path(place) for place in (selftest.files_of(_HERE, tier) if marked else ())}
        lost = [path for path in marked if places.isdisjoint((path, *path.parents))]
        assert not lost, f"`portico test --tier {tier}` does not find the tests of {lost}"
    if _EXAMPLES_MAX is None:
        return
    for item in items:
        function = getattr(item, "obj", None)
        if is_hypothesis_test(function):
            _shorten(function, getattr(item, "cls", None), _EXAMPLES_MAX)


def _shorten(function: Any, machine: Any, examples_max: int) -> None:
    """What a function asks for stands at it; what a state machine asks for, at its class."""
    name = "_hypothesis_internal_use_settings"
    holder, name = (function, name) if hasattr(function, name) else (machine, "settings")
    asked = getattr(holder, name)
    setattr(holder, name, settings(asked, max_examples=min(asked.max_examples, examples_max)))


stack = whole_product


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Commands that a test runs in this process set up the logs of theirs."""
    before = structlog.get_config()
    handlers = logging.root.handlers[:]
    yield
    logging.disable(logging.NOTSET)
    if structlog.get_config() != before:
        structlog.configure(**before)
        logging.root.handlers[:] = handlers


@pytest.fixture(scope="session")
def mail() -> Iterator[SmtpServer]:
    """Where the stack's mails go."""
    with smtp_server_in_thread() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis for all tests that leave it running; each begins with an empty one (`redis_url`)."""
    with running_redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One Postgres for all tests of a session; each makes databases of its own."""
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.close()
