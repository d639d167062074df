"""`portico bench control` measures real processes: its figures are there, and of what they say."""

from typing import Any

import pytest

from ctl.bench import control_savings
from ctl.bench.control import Wanted, run
from ctl.bench.measure import Spread
from ctl.errors import CommandError
from tests.servers.postgres import PostgresServer
from tests.servers.redis_server import RedisServer

_SLOT_S = 11
"""Longer than the quota master keeps its series for itself."""


def _little(monkeypatch: pytest.MonkeyPatch, series_s: float) -> None:
    for name, few in (("_ASKED", 60), ("_BURST_SHARE", 0.1), ("_COMMITS", 1), ("_SERIES_S", series_s)):
        monkeypatch.setattr(control_savings, name, few)


def _are_figures(figures: dict[str, Any]) -> None:
    assert len(figures["p50 and p99 by route, ms"]) == 8
    assert 0 < figures["reads: p50, ms"] <= figures["reads: p99, ms"]
    assert 0 < figures["request limits: let through of what a key may send"] < 1
    assert isinstance(figures["wake-ups: from a change to the poll at the other process, ms"], Spread)
    assert isinstance(figures["jobs go on after kill -9, s"], Spread)


@pytest.mark.long
def test_two_processes_are_read_from_and_one_is_killed(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _little(monkeypatch, 1)
    url = postgres.url(postgres.new_database())
    [(name, figures)] = run(Wanted(url, None, rate_per_s=40, seconds=1), 1, lambda _: None).items()
    assert name == "without redis"
    _are_figures(figures)
    assert figures["live series: the next quota master's, s"] == 0
    with pytest.raises(CommandError, match="not empty"):
        run(Wanted(url, None, rate_per_s=1, seconds=1), 1, lambda _: None)


@pytest.mark.long
def test_with_redis_callers_are_remembered_and_series_live_on(
    postgres: PostgresServer, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_server.ask().flushall()
    _little(monkeypatch, _SLOT_S)
    url = postgres.url(postgres.new_database())
    redis_url = f"redis://127.0.0.1:{redis_server.port}/0"
    without, with_redis = run(Wanted(url, redis_url, 40, 1), 1, lambda _: None).values()
    for figures in (without, with_redis):
        _are_figures(figures)
    for who in ("a key", "a session"):
        asked = f"who asks, {who}: transactions per request"
        assert with_redis[asked] < without[asked]
    assert with_redis["live series: the next quota master's, s"] > 0
