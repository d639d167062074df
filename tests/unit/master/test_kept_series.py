"""The hour of rates outlives its master where there is a Redis, whatever became of that."""

import asyncio
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from contracts.quota_view import History
from contracts.specs import InstanceSpec
from master.journal import Journal
from master.kept_series import KeptSeries
from master.quota.history import COARSE_SPAN_MS, COARSE_STEP_MS, FINE_SPAN_MS, InstanceHistory, Row
from master.service import MasterService
from master.settings import MasterSettings
from runtime.redis_link import RedisLink
from tests.servers.redis_server import RedisServer, running_redis

from .reports import ID, a_spec

START_MS = 1_700_000_000_000
OTHER = "iother000000"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as made:
        yield made


@pytest.fixture
def link(server: RedisServer) -> Iterator[RedisLink]:
    server.ask().flushall()
    made = RedisLink(server.url, budget_ms=5_000)
    made.start()
    yield made
    made.close()


@pytest.fixture
def series(link: RedisLink) -> KeptSeries:
    return KeptSeries(link)


def _row(second: int, *, is_idle: bool = False) -> Row:
    rate = 7 if is_idle else second
    return Row(
        rate * 10,
        second % 50 == 3 and not is_idle,
        {1: (rate,) * 10, 2: (rate + 1,) * 10},
        {"broker-1": (rate,) * 5},
    )


def _live(series: KeptSeries, seconds: int, *, is_idle: bool = False) -> tuple[InstanceHistory, int]:
    """A master's history, kept slot by slot; and when it ends: with a slot."""
    history = InstanceHistory()
    for second in range(seconds + 1):
        ended = history.record(START_MS + second * 1_000, _row(second, is_idle=is_idle))
        if ended is not None:
            series.keep({ID: ended})
    return history, START_MS + seconds * 1_000


def _values(history: InstanceHistory, end_ms: int, span_ms: int) -> dict[int, int | None]:
    """What is drawn at each second: a sample holds until the next one."""
    view: History = history.view(end_ms - span_ms)
    drawn = dict(zip(view.at_ms, view.stored_bytes, strict=True))
    held: dict[int, int | None] = {}
    last = None
    for at_ms in range(end_ms - span_ms, end_ms, 1_000):
        last = drawn.get(at_ms, last)
        held[at_ms] = last
    return held


@pytest.mark.parametrize("is_idle", [False, True])
@pytest.mark.parametrize("seconds", [40, 900, 4_000])
def test_a_successor_shows_what_its_predecessor_showed(
    series: KeptSeries, seconds: int, is_idle: bool
) -> None:
    before, end_ms = _live(series, seconds, is_idle=is_idle)
    after = series.recall([ID, OTHER], end_ms)
    assert set(after) == {ID}
    kept_ms = min(seconds * 1_000, FINE_SPAN_MS - 2 * COARSE_STEP_MS)
    assert _values(after[ID], end_ms, kept_ms) == _values(before, end_ms, kept_ms)
    if seconds * 1_000 > COARSE_SPAN_MS:
        old, new = (one.view(end_ms - COARSE_SPAN_MS) for one in (before, after[ID]))
        assert abs(len(old.at_ms) - len(new.at_ms)) <= 130, "the oldest seconds go many at a time"
        assert [one.node_id for one in new.brokers] == [1, 2]
        place = len(new.at_ms) // 4
        at_ms = new.at_ms[place]
        assert (
            new.brokers[0].produce.rate_per_s[place]
            == old.brokers[0].produce.rate_per_s[old.at_ms.index(at_ms)]
        )


def test_what_is_kept_is_bounded_and_ends_by_itself(series: KeptSeries, server: RedisServer) -> None:
    _live(series, 4_500)
    redis = server.ask()
    fine, means = f"portico:series:fine:{ID}", f"portico:series:means:{ID}"
    assert (redis.llen(fine), redis.llen(means)) == (
        FINE_SPAN_MS // COARSE_STEP_MS,
        COARSE_SPAN_MS // COARSE_STEP_MS,
    )
    assert 0 < redis.pttl(fine) <= FINE_SPAN_MS + 60_000
    assert 0 < redis.pttl(means) <= COARSE_SPAN_MS + 60_000
    assert sum(redis.memory_usage(name) or 0 for name in (fine, means)) < 100_000
    redis.flushall()
    _live(series, 4_500, is_idle=True)
    assert sum(redis.memory_usage(name) or 0 for name in (fine, means)) < 60_000


def test_what_others_wrote_there_is_left_out(series: KeptSeries, server: RedisServer) -> None:
    before, end_ms = _live(series, 100)
    redis = server.ask()
    bomb = zlib.compress(b"\0" * 50_000_000)
    pack = msgspec.msgpack.encode
    wrong = [
        [[-1, 0, False, {}, {}]],
        [[1, 2**63, False, {}, {}]],
        [[1, 0, False, {1: [1]}, {}]],
        [[1, 0, False, {1: ["x"] * 10}, {}]],
        [[1, 0, False, {}]],
        {"at_ms": 1},
        [[end_ms + 10**9, 5, False, {}, {}]],
    ]
    for chunk in (b"", b"nonsense", bomb, *(zlib.compress(pack(one)) for one in wrong)):
        redis.rpush(f"portico:series:fine:{ID}", chunk)
        redis.rpush(f"portico:series:means:{ID}", chunk)
    after = series.recall([ID], end_ms)[ID]
    assert _values(after, end_ms, 100_000) == _values(before, end_ms, 100_000)
    redis.set(f"portico:series:fine:{OTHER}", "not even a list")
    assert series.recall([OTHER], end_ms) == {}


async def _served(service: MasterService, until: int) -> None:
    task = asyncio.create_task(service.run())
    async with asyncio.timeout(60):
        while len(service._history) < until:
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _service(tmp_path: Path, series: KeptSeries, now_ms: int) -> MasterService:
    specs: dict[str, InstanceSpec] = {ID: a_spec()}
    return MasterService(
        lambda: specs,
        Journal(f"sqlite:///{tmp_path / 'master.db'}"),
        MasterSettings(),
        term=1,
        series=series,
        wall_ms=lambda: now_ms,
    )


async def test_a_new_master_goes_on_with_the_hour(tmp_path: Path, series: KeptSeries) -> None:
    _live(series, 100)
    service = _service(tmp_path, series, START_MS + 130_000)
    await _served(service, 1)
    view = service.view(ID, 600)
    assert view is not None
    assert START_MS + 50_000 in view.history.at_ms
    assert view.history.at_ms[-1] == START_MS + 130_000, "and its own sample behind it"


@pytest.mark.parametrize("trouble", ["killed", "full", "stands still", "empty"])
async def test_without_its_redis_a_master_begins_anew(tmp_path: Path, trouble: str) -> None:
    with running_redis() as server:
        link = RedisLink(server.url, budget_ms=300)
        link.start()
        series = KeptSeries(link)
        _live(series, 100)
        service = _service(tmp_path, series, START_MS + 130_000)
        if trouble == "killed":
            server.kill()
        elif trouble == "empty":
            server.ask().flushall()
        if trouble == "stands still":
            with server.standing_still():
                await _served(service, 1)
        elif trouble == "full":
            with server.full():
                await _served(service, 1)
                _live(series, 100)
                assert link.trouble == "full"
        else:
            await _served(service, 1)
        view = service.view(ID, 600)
        assert view is not None
        assert len(view.history.at_ms) > 50 if trouble == "full" else len(view.history.at_ms) == 1
        link.close()
