"""Two control processes with one database and one Redis that is killed, stopped, filled and written to."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import httpx
import msgspec
import pytest
import sqlalchemy

from runtime.redis_link import RedisUrl
from tenants import credentials
from tenants.app import create_console_app
from tenants.console import Console
from tenants.remembered import CallerMemory, Remembered
from tenants.rules.rate_limit import ApiRates, Quota
from tenants.shared_limits import RequestRates
from tenants.usecases.accounts import Browser
from tests.servers.redis_server import RedisServer, running_redis
from traffic.login_limit import FAILURES_MAX_PER_PAIR

from .conftest import OPERATOR_KEY, ORDER

pytestmark = pytest.mark.filterwarnings("ignore:Setting per-request cookies:DeprecationWarning")
PATIENCE_S = 60.0
Client = httpx.AsyncClient


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One that a test may do anything to."""
    with running_redis() as made:
        yield made


@pytest.fixture
def redis_url(server: RedisServer) -> RedisUrl:
    return server.url


@pytest.fixture
async def planes(make_console: Callable[..., Console]) -> AsyncIterator[tuple[Console, Console]]:
    with ExitStack() as held:
        made = make_console(), make_console()
        for one in made:
            held.callback(one.close)
        yield made


@pytest.fixture
async def clients(planes: tuple[Console, Console]) -> AsyncIterator[tuple[Client, Client]]:
    async with AsyncExitStack() as held:
        apps = [httpx.ASGITransport(app=create_console_app(one)) for one in planes]
        first, second = [
            await held.enter_async_context(Client(transport=one, base_url="http://c")) for one in apps
        ]
        yield first, second


@pytest.fixture
def password(planes: tuple[Console, Console]) -> str:
    return planes[0].accounts.reset_password("test", "admin")


def _queries(console: Console) -> list[str]:
    """Every statement that the console's store carries out from now on."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        said.append(statement)

    sqlalchemy.event.listen(console.store._engine, "before_cursor_execute", note)
    return said


async def _log_in(client: Client, password: str, user: str = "admin") -> httpx.Response:
    return await client.post("/v1/session", json={"user": user, "password": password})


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# --- what it is for -----------------------------------------------------------------------------------


async def test_a_known_caller_costs_the_database_nothing(
    planes: tuple[Console, Console], clients: tuple[Client, Client], password: str
) -> None:
    made = await _log_in(clients[0], password)
    assert made.status_code == 201
    cookies = dict(made.cookies)
    for headers, jar in ((_bearer(OPERATOR_KEY), None), ({}, cookies)):
        first = await clients[0].get("/v1/me", headers=headers, cookies=jar)
        assert first.status_code == 200
        asked = [*map(_queries, planes)]
        for client in clients:
            again = await client.get("/v1/me", headers=headers, cookies=jar)
            assert again.json() == first.json()
        assert asked == [[], []], "both processes answered from what one of them had asked"


async def test_wrong_passwords_are_counted_over_both(clients: tuple[Client, Client], password: str) -> None:
    guesses = [await _log_in(clients[n % 2], "wrong") for n in range(FAILURES_MAX_PER_PAIR + 2)]
    assert [one.status_code for one in guesses] == [401] * FAILURES_MAX_PER_PAIR + [429] * 2
    assert 0 < int(guesses[-1].headers["retry-after"]) <= 61


async def test_a_login_forgets_the_failures_that_the_other_counted(
    clients: tuple[Client, Client], password: str
) -> None:
    for _ in range(FAILURES_MAX_PER_PAIR - 1):
        await _log_in(clients[0], "wrong")
    assert (await _log_in(clients[1], password)).status_code == 201
    assert (await _log_in(clients[1], "wrong")).status_code == 401
    assert (await _log_in(clients[1], password)).status_code == 201


async def test_a_key_has_one_rate_at_both(planes: tuple[Console, Console]) -> None:
    rates = ApiRates(operator=Quota("key", 10, 3_600))
    caller = planes[0].accounts.caller_of_key(OPERATOR_KEY, None)
    assert caller is not None
    both = [RequestRates(one.redis, rates) for one in planes]
    verdicts = [both[number % 2].take(caller) for number in range(12)]
    assert [one.is_admitted for one in verdicts] == [True] * 10 + [False] * 2
    assert [one.remaining for one in verdicts[:10]] == list(range(9, -1, -1))


# --- nobody gains rights --------------------------------------------------------------------------------


async def test_what_is_ended_at_one_is_ended_at_the_other_at_once(
    planes: tuple[Console, Console], clients: tuple[Client, Client], password: str
) -> None:
    operator = _bearer(OPERATOR_KEY)
    made = (await clients[0].post("/v1/keys", json={"name": "k"}, headers=operator)).json()
    session = await _log_in(clients[0], password)
    cookies = dict(session.cookies)
    for client in clients:  # both have it remembered
        assert (await client.get("/v1/me", headers=_bearer(made["secret"]))).status_code == 200
        assert (await client.get("/v1/me", cookies=cookies)).status_code == 200
    await clients[0].delete(f"/v1/keys/{made['id']}", headers=operator)
    assert (await clients[1].get("/v1/me", headers=_bearer(made["secret"]))).status_code == 401
    await clients[1].delete(
        "/v1/session", cookies=cookies, headers={"X-CSRF-Token": session.json()["csrf_token"]}
    )
    assert (await clients[0].get("/v1/me", cookies=cookies)).status_code == 401
    again = dict((await _log_in(clients[0], password)).cookies)
    assert (await clients[1].get("/v1/me", cookies=again)).status_code == 200
    planes[0].accounts.reset_password("test", "admin")
    assert (await clients[1].get("/v1/me", cookies=again)).status_code == 401


async def test_an_answer_of_the_database_from_before_the_end_is_not_remembered_after_it(
    planes: tuple[Console, Console], server: RedisServer
) -> None:
    """The other process had read the key, then it was revoked, then the other one remembers it."""
    late = Remembered(
        kind="key",
        id="k1",
        name="k",
        tenant="default",
        role="owner",
        valid_until_ms=time.time_ns() // 10**6 + 9_000,
    )
    token = credentials.sha256("secret")
    one, other = (CallerMemory(plane.redis, "s") for plane in planes)
    one.end([token])
    other.keep(token, late)
    assert one.find("key", token) is None and other.find("key", token) is None
    server.ask().flushall()
    other.keep(token, late)
    assert one.find("key", token) == late, "the mark was what kept it out"


async def test_who_writes_to_redis_makes_no_credential(
    planes: tuple[Console, Console], clients: tuple[Client, Client], server: RedisServer
) -> None:
    operator = _bearer(OPERATOR_KEY)
    viewer = (
        await clients[0].post("/v1/keys", json={"name": "v", "role": "viewer"}, headers=operator)
    ).json()
    assert (await clients[0].get("/v1/me", headers=_bearer(viewer["secret"]))).json()["role"] == "viewer"
    await clients[0].get("/v1/me", headers=operator)
    redis = server.ask()
    mine = "portico:caller:" + credentials.sha256(viewer["secret"])
    theirs = "portico:caller:" + credentials.sha256(OPERATOR_KEY)
    stored, operators = redis.get(mine), redis.get(theirs)
    assert isinstance(stored, bytes) and isinstance(operators, bytes)
    forged = stored[:32] + stored[32:].replace(b"viewer", b"owner\0")
    foreign = CallerMemory(planes[0].redis, "another secret")
    made_up = Remembered(
        kind="key", id="x", name="x", tenant="default", role="operator", valid_until_ms=2**60
    )
    long = msgspec.structs.replace(made_up, valid_until_ms=time.time_ns() // 10**6 + 5_000)
    for attempt in (
        operators,
        forged,
        b"",
        b"\0" * 40,
        foreign._sealed(credentials.sha256(viewer["secret"]), long),
    ):
        redis.set(mine, attempt)
        assert (await clients[1].get("/v1/me", headers=_bearer(viewer["secret"]))).json()["role"] == "viewer"
    unknown = credentials.sha256("a key that nobody has")
    redis.set("portico:caller:" + unknown, operators)
    assert (await clients[1].get("/v1/me", headers=_bearer("a key that nobody has"))).status_code == 401
    own = CallerMemory(planes[0].redis, "secret-of-this-deployment")
    redis.set("portico:caller:" + unknown, own._sealed(unknown, made_up))
    assert own.find("key", unknown) is None, "its own end is too far away to be one of ours"
    redis.set("portico:caller:" + unknown, own._sealed(unknown, long))
    assert own.find("key", unknown) == long
    assert own.find("session", unknown) is None, "a key is not a session"


def test_no_secret_is_in_redis(planes: tuple[Console, Console], password: str, server: RedisServer) -> None:
    session = planes[0].accounts.log_in("admin", password, Browser("10.0.0.1", ""))
    planes[0].accounts.caller_of_session(session.token, None)
    planes[0].accounts.caller_of_key(OPERATOR_KEY, None)
    with pytest.raises(Exception, match="wrong"):
        planes[0].accounts.log_in("my password by mistake", "x", Browser("10.0.0.1", ""))
    redis = server.ask()
    names = redis.keys("*")
    assert len(names) >= 3
    everything = repr(names) + "".join(
        repr(redis.get(name) if redis.type(name) == b"string" else redis.lrange(name, 0, -1))
        for name in names
    )
    for secret in (session.token, OPERATOR_KEY, password, "my password"):
        assert secret not in everything
    assert all(redis.ttl(name) > 0 for name in names), "everything ends by itself"


# --- Redis goes away, is full, is slow, loses everything ---------------------------------------------------


async def _everything_works(client: Client, password: str, name: str) -> None:
    """Log in, write, read, revoke, log out: each is answered as without Redis."""
    session = await _log_in(client, password)
    assert session.status_code == 201, session.text
    writes = {"X-CSRF-Token": session.json()["csrf_token"]}
    cookies = dict(session.cookies)
    made = await client.post("/v1/instances", json={**ORDER, "name": name}, cookies=cookies, headers=writes)
    assert made.status_code == 201, made.text
    key = await client.post("/v1/keys", json={"name": name}, cookies=cookies, headers=writes)
    secret = key.json()["secret"]
    assert (await client.get("/v1/instances", headers=_bearer(secret))).status_code == 200
    gone = await client.delete(f"/v1/keys/{key.json()['id']}", cookies=cookies, headers=writes)
    assert gone.status_code == 204
    assert (await client.get("/v1/instances", headers=_bearer(secret))).status_code == 401
    assert (await client.delete("/v1/session", cookies=cookies, headers=writes)).status_code == 204
    assert (await client.get("/v1/me", cookies=cookies)).status_code == 401


async def test_redis_is_killed_and_comes_back_empty(
    planes: tuple[Console, Console], clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    await _everything_works(clients[0], password, "before")
    server.kill()
    await _everything_works(clients[0], password, "meanwhile")
    health = (await clients[0].get("/v1/health", headers=_bearer(OPERATOR_KEY))).json()
    assert health["redis"] == "connection"
    server.start()
    await _until(lambda: planes[0].redis is not None and planes[0].redis.trouble is None)
    await _everything_works(clients[0], password, "after")
    assert (await clients[0].get("/v1/health", headers=_bearer(OPERATOR_KEY))).json()["redis"] == "ok"
    assert "redis" not in (await clients[0].get("/v1/health")).text.replace('"redis":null', "")


async def test_failures_are_still_limited_by_each_process_without_redis(
    clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    for _ in range(2):
        await _log_in(clients[0], "wrong")
    server.kill()
    more = [await _log_in(clients[0], "wrong") for _ in range(4)]
    assert [one.status_code for one in more] == [401] * 3 + [429], "the two from before count on"
    elsewhere = [await _log_in(clients[1], "wrong") for _ in range(6)]
    assert [one.status_code for one in elsewhere] == [401] * 5 + [429]


async def test_a_guesser_gains_nothing_when_redis_loses_everything(
    clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    codes = []
    for _ in range(FAILURES_MAX_PER_PAIR + 3):
        codes.append((await _log_in(clients[0], "wrong")).status_code)
        server.ask().flushall()
    assert codes == [401] * FAILURES_MAX_PER_PAIR + [429] * 3


async def test_scripts_that_the_server_forgot_are_told_again(
    planes: tuple[Console, Console], server: RedisServer
) -> None:
    caller = planes[0].accounts.caller_of_key(OPERATOR_KEY, None)
    assert caller is not None
    rates = [RequestRates(one.redis, ApiRates(operator=Quota("key", 10, 3_600))) for one in planes]
    for number in range(4):
        assert rates[number % 2].take(caller).remaining == 9 - number
        server.ask().script_flush()


async def test_a_full_redis(
    planes: tuple[Console, Console], clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    operator = _bearer(OPERATOR_KEY)
    made = (await clients[0].post("/v1/keys", json={"name": "k"}, headers=operator)).json()
    assert (await clients[1].get("/v1/me", headers=_bearer(made["secret"]))).status_code == 200
    with server.full():
        await _everything_works(clients[0], password, "full")
        assert (await clients[0].get("/v1/health", headers=operator)).json()["redis"] == "full"
        # What was remembered before the server was full is taken out all the same.
        await clients[0].delete(f"/v1/keys/{made['id']}", headers=operator)
        assert (await clients[1].get("/v1/me", headers=_bearer(made["secret"]))).status_code == 401
    async with asyncio.timeout(PATIENCE_S):
        while (await clients[0].get("/v1/health", headers=operator)).json()["redis"] != "ok":
            await asyncio.sleep(0.05)


async def test_a_redis_that_does_not_answer_is_waited_for_once(
    planes: tuple[Console, Console], clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    link = planes[0].redis
    assert link is not None
    asked: list[str] = []
    call = link._client.execute_command
    link._client.execute_command = lambda *words, **more: (asked.append(words[0]), call(*words, **more))[1]  # type: ignore[method-assign]
    with server.standing_still():
        first = await clients[0].get("/v1/me", headers=_bearer(OPERATOR_KEY))
        assert first.status_code == 200
        assert link.trouble == "timeout"
        waited = [one for one in asked if one not in ("PING", "DEL")]
        await _everything_works(clients[0], password, "slow")
        assert [one for one in asked if one not in ("PING", "DEL")] == waited, "no request waited again"
        assert len(waited) == 1
    await _until(lambda: link.trouble is None)
    await _everything_works(clients[0], password, "fast")


async def test_a_redis_that_only_reads_is_not_used(
    planes: tuple[Console, Console], clients: tuple[Client, Client], server: RedisServer, password: str
) -> None:
    """After a failover the address may lead to a replica."""
    server.ask().replicaof("127.0.0.1", 1)
    await _everything_works(clients[0], password, "replica")
    assert planes[0].redis is not None and planes[0].redis.trouble == "read_only"


@pytest.mark.parametrize("redis_url", [RedisUrl("redis://127.0.0.1:1/0")])
async def test_a_redis_that_was_never_there(clients: tuple[Client, Client], password: str) -> None:
    await _everything_works(clients[0], password, "never")


async def test_without_the_deployments_secret_nothing_is_remembered(
    planes: tuple[Console, Console], server: RedisServer
) -> None:
    memory = CallerMemory(planes[0].redis, None)
    found = Remembered(kind="key", id="x", name="x", tenant="default", role="owner", valid_until_ms=2**60)
    memory.keep("token", found)
    assert memory.find("key", "token") is None
    assert not server.ask().keys("portico:caller:*")
