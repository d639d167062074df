"""A change at one control process wakes the polls of the other: by Redis, or by a look at the database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from contracts.specs import ConsumerKind, FeedRequest, FeedResponse
from runtime.redis_link import RedisLink, RedisUrl
from runtime.tasks import Supervised
from tenants.console import Console
from tenants.feed import Feed
from tenants.store.registry import touch_cluster
from tenants.wakeups import WakeUps
from tests.servers.redis_server import RedisServer, running_redis

PATIENCE_S = 60.0
NEVER_S = 3_600.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_redis() as made:
        yield made


@pytest.fixture
def redis_url(server: RedisServer) -> RedisUrl:
    return server.url


@pytest.fixture
async def planes(make_console: Callable[..., Console]) -> AsyncIterator[tuple[Console, Console]]:
    made = make_console(), make_console()
    for one in made:
        one.feed.start()
    yield made
    for one in made:
        one.close()


class Woken:
    """How often a feed's polls were woken by others, and the tasks that do it."""

    def __init__(
        self,
        plane: Console,
        link: RedisLink | None,
        look_s: float,
        listening_s: float,
        database_tells: Callable[[], bool] = lambda: False,
    ) -> None:
        self.times = 0
        self._awake = plane.feed.awake
        plane.feed.awake = self._count  # type: ignore[method-assign]
        self.wakeups = WakeUps(
            link,
            plane.store,
            plane.feed,
            database_tells=database_tells,
            look_s=look_s,
            look_listening_s=listening_s,
        )
        self.tasks = Supervised()
        self.tasks.spawn("wake-ups", self.wakeups.run)

    def _count(self) -> None:
        self.times += 1
        self._awake()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def _caught_up(feed: Feed, name: str) -> FeedRequest:
    """A poll that waits for what comes next."""
    first = await feed.poll(
        FeedRequest(consumer=name, kind=ConsumerKind.GATEWAY, applied_revision=0, wait_ms=0)
    )
    return FeedRequest(
        consumer=name,
        kind=ConsumerKind.GATEWAY,
        feed_id=first.feed_id,
        applied_revision=first.revision,
        mark=first.mark,
        wait_ms=30_000,
    )


async def _poll_beside_a_change(planes: tuple[Console, Console], name: str) -> FeedResponse:
    """The second process is polled, the first one commits a change."""
    request = await _caught_up(planes[1].feed, f"gateway-{name}")
    poll = asyncio.create_task(planes[1].feed.poll(request))
    await asyncio.sleep(0.05)
    assert not poll.done()
    with planes[0].store.write() as connection:
        touch_cluster(connection, "builtin-1", 1)
    planes[0].feed.notify()
    async with asyncio.timeout(25):  # less than the poll would wait by itself
        return await poll


async def test_by_redis_at_once(planes: tuple[Console, Console]) -> None:
    both = [Woken(one, one.redis, NEVER_S, NEVER_S) for one in planes]
    await _until(lambda: all(one.wakeups.is_listening for one in both))
    answer = await _poll_beside_a_change(planes, "one")
    assert answer.clusters
    for one in both:
        await one.tasks.aclose()


async def test_without_redis_by_looking(planes: tuple[Console, Console]) -> None:
    both = [Woken(one, None, 0.05, NEVER_S) for one in planes]
    assert (await _poll_beside_a_change(planes, "one")).clusters
    for one in both:
        await one.tasks.aclose()


async def test_while_the_database_tells_nobody_looks_and_at_once_when_it_does_not(
    planes: tuple[Console, Console],
) -> None:
    asked = [0]
    tells = True

    def database_tells() -> bool:
        asked[0] += 1
        return tells

    woken = Woken(planes[1], None, 0.01, NEVER_S, database_tells)
    with planes[0].store.write() as connection:
        touch_cluster(connection, "builtin-1", 1)
    await _until(lambda: asked[0] > 20)
    assert woken.times == 0, "the first look would have found something"
    tells = False
    await _until(lambda: woken.times == 1)
    await woken.tasks.aclose()


@pytest.mark.parametrize("trouble", ["killed", "stands still"])
async def test_when_redis_is_lost_by_looking_and_by_redis_when_it_is_back(
    planes: tuple[Console, Console], server: RedisServer, trouble: str
) -> None:
    both = [Woken(one, one.redis, 0.05, NEVER_S) for one in planes]
    await _until(lambda: all(one.wakeups.is_listening for one in both))
    if trouble == "killed":
        server.kill()
        await _until(lambda: not any(one.wakeups.is_listening for one in both))
        assert (await _poll_beside_a_change(planes, "one")).clusters
        server.start()
    else:
        with server.standing_still():
            await _until(lambda: not any(one.wakeups.is_listening for one in both))
            assert (await _poll_beside_a_change(planes, "one")).clusters
    await _until(lambda: all(one.wakeups.is_listening for one in both))
    for one in both:
        one.wakeups._look_s = NEVER_S
    assert (await _poll_beside_a_change(planes, "two")).clusters
    for one in both:
        await one.tasks.aclose()


async def test_who_shouts_in_the_channel_wakes_nobody_all_the_time(
    planes: tuple[Console, Console], server: RedisServer
) -> None:
    woken = Woken(planes[1], planes[1].redis, NEVER_S, NEVER_S)
    await _until(lambda: woken.wakeups.is_listening and woken.times == 1)
    redis = server.ask()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(2_000):
        redis.publish("portico:feed", b"shout" * 100)
        await asyncio.sleep(0)
    await _until(lambda: woken.times >= 2)
    await asyncio.sleep(0.2)
    assert woken.times <= 3 + (loop.time() - began_s) / 0.05
    await woken.tasks.aclose()
