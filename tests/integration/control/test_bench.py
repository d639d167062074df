"""`portico bench control` measures real processes: its figures are there, and of what they say."""

import pytest

from ctl.bench.control import Wanted, run
from ctl.bench.measure import Spread
from ctl.errors import CommandError
from tests.servers.postgres import PostgresServer


def test_two_processes_are_read_from_and_one_is_killed(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    [(name, figures)] = run(Wanted(url, None, rate_per_s=40, seconds=1), 1, lambda _: None).items()
    assert name == "without redis"
    assert len(figures["p50 and p99 by route, ms"]) == 8
    assert 0 < figures["reads: p50, ms"] <= figures["reads: p99, ms"]
    assert isinstance(figures["jobs go on after kill -9, s"], Spread)
    with pytest.raises(CommandError, match="not empty"):
        run(Wanted(url, None, rate_per_s=1, seconds=1), 1, lambda _: None)
