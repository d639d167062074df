"""A control plane on a temporary database, SQLite and Postgres in turn, and callers of its API."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from contracts.fleet import FleetOverview, FleetRow
from contracts.quota_view import CpuQuota, DirectionQuota, QuotaOverview, QuotaView, Rule
from runtime.internal_http import InternalClient
from runtime.redis_link import RedisUrl
from runtime.tasks import Supervised
from tenants.app import create_console_app, create_internal_routes
from tenants.config import ConsoleConfig
from tenants.console import Console
from tenants.rules.vports import Endpoint, parse_vip
from tests.servers.databases import Databases, PostgresDatabases, SqliteDatabases
from tests.servers.redis_server import RedisServer

OPERATOR_KEY = "operator-key-of-this-test"
ORDER = {
    "name": "shop",
    "produce_rate_bytes_per_s": 1_000_000,
    "consume_rate_bytes_per_s": 2_000_000,
    "capacity_bytes": 1_000_000_000,
    "whitelist": ["10.0.0.0/8"],
}


_CROSSED = {("sqlite", "redis"), ("postgres", "alone")}
"""Redis serves several control processes, which share a Postgres: other pairs are of the tier `long`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever looks at a control plane looks at it once, on one of two pairs; on all four in tier `long`."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        stores = (params.get("databases"), params.get("redis_url"))
        if None in stores:
            continue
        ours = ("sqlite", "postgres")[crc32(item.nodeid.partition("[")[0].encode()) % 2]
        if stores in _CROSSED or stores[0] != ours:
            item.add_marker(pytest.mark.long)


class MasterServer:
    """The quota master's HTTP as the console sees it: views that a test sets, or no answer."""

    def __init__(self) -> None:
        self.views: dict[str, QuotaView] = {}
        self.is_down = False
        self.questions = 0
        """About all instances at once."""
        self.asked = 0
        """Whatever it was about."""
        self._go_on = asyncio.Event()
        self._go_on.set()
        self.app = Starlette(
            routes=[
                Route("/internal/v1/quota", self._overview),
                Route("/internal/v1/fleet", self._fleet),
                Route("/internal/v1/instances/{instance}/quota", self._instance),
            ]
        )

    def knows(self, instance_id: str, stored_bytes: int = 0, *, blocked: bool = False) -> None:
        direction = DirectionQuota(
            purchased_per_s=1_000_000,
            rate_per_s=5,
            allocated_per_s=1_000_000,
            rule=Rule.BELOW_GATE,
            explanation="quiet",
            reserved_per_s=0,
            p_min_per_s=0,
            p_max_per_s=0,
            p_ratio=None,
            throttled_ms_per_s=0,
        )
        self.views[instance_id] = QuotaView(
            instance_id=instance_id,
            at_ms=1,
            policy="seed",
            period_ms=1000,
            capacity_bytes=10,
            stored_bytes=stored_bytes,
            stored_left_bytes=0,
            unblock_below_bytes=9,
            blocked=blocked,
            produce=direction,
            consume=direction,
            cpu=CpuQuota(request_percent=50, total=direction),
        )

    def hold(self) -> asyncio.Event:
        """Questions about one instance wait until the event is set."""
        self._go_on = asyncio.Event()
        return self._go_on

    async def _overview(self, _request: Request) -> Response:
        self.questions += 1
        self.asked += 1
        if self.is_down:
            return Response(status_code=503)
        overview = QuotaOverview(at_ms=1, policy="seed", instances=tuple(self.views.values()))
        return Response(msgspec.json.encode(overview))

    async def _fleet(self, _request: Request) -> Response:
        self.questions += 1
        self.asked += 1
        if self.is_down:
            return Response(status_code=503)
        rows = [
            FleetRow(
                one.instance_id,
                *(one.produce.rate_per_s, one.consume.rate_per_s),
                *(one.produce.purchased_per_s, one.consume.purchased_per_s),
                one.produce.throttled_ms_per_s,
                *(one.stored_bytes, one.capacity_bytes),
                blocked=one.blocked,
                skew_percent=0,
                silent_brokers=0,
            )
            for one in self.views.values()
        ]
        return Response(msgspec.json.encode(FleetOverview(at_ms=1, policy="seed", rows=tuple(rows))))

    async def _instance(self, request: Request) -> Response:
        self.asked += 1
        await self._go_on.wait()
        view = self.views.get(request.path_params["instance"])
        if self.is_down or view is None:
            return Response(status_code=503 if self.is_down else 404)
        return Response(msgspec.json.encode(view))


@pytest.fixture
def master() -> MasterServer:
    return MasterServer()


@pytest.fixture
def taken() -> set[Endpoint]:
    """Endpoints that another program has."""
    return set()


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """Where this round of the tests has its databases."""
    if request.param == "sqlite":
        return SqliteDatabases(tmp_path_factory.mktemp("databases"))
    return PostgresDatabases(request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def new_store(databases: Databases) -> str:
    """A bootstrapped store to copy: migrations and argon2 take their time."""
    url = databases.new()
    console = Console(_config(url, "127.0.0.1", None), InternalClient("http://master", "x"))
    console.bootstrap(OPERATOR_KEY)
    console.close()
    return url


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """An empty database."""
    url = databases.new()
    yield url
    databases.drop(url)


@pytest.fixture
def store_url(databases: Databases, new_store: str) -> Iterator[str]:
    """A copy of the bootstrapped store."""
    url = databases.copy(new_store)
    yield url
    databases.drop(url)


def _config(url: str, vip: str, tables: Path | None, redis_url: RedisUrl | None = None) -> ConsoleConfig:
    return ConsoleConfig(
        database_url=url,
        vip_pool=parse_vip(vip, 21000, 21019),
        default_cluster_id="builtin-1",
        secret="secret-of-this-deployment",
        tables_dir=tables,
        redis_url=redis_url,
        redis_budget_ms=2_000,
    )


@pytest.fixture(params=["alone", "redis"])
def redis_url(request: pytest.FixtureRequest) -> RedisUrl | None:
    """Every test of the control plane runs without Redis, and with one that is empty when it begins."""
    if request.param == "alone":
        return None
    server: RedisServer = request.getfixturevalue("redis_server")
    server.ask().flushall()
    return server.url


@pytest.fixture
def make_console(
    store_url: str,
    tables: Path,
    master: MasterServer,
    taken: set[Endpoint],
    redis_url: RedisUrl | None,
) -> Callable[..., Console]:
    """Opens the same store again, as a restart or a second control process does."""

    def make(
        vip: str = "127.0.0.1",
        url: str = store_url,
        to_provider: httpx.AsyncBaseTransport | None = None,
        **settings: Any,
    ) -> Console:
        config = replace(_config(url, vip, tables, redis_url), **settings)
        client = InternalClient("http://master", "x", transport=httpx.ASGITransport(app=master.app))
        return Console(
            config, client, is_free=lambda endpoint: endpoint not in taken, to_provider=to_provider
        )

    return make


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Where this console reads the pipeline's tables."""
    return tmp_path / "tables"


@pytest.fixture
async def plane(make_console: Callable[..., Console]) -> AsyncIterator[Console]:
    console = make_console()
    tasks = Supervised()
    console.start_feed(tasks)
    console.start(tasks)
    yield console
    await tasks.aclose()
    console.close()


@pytest.fixture
async def client(plane: Console) -> AsyncIterator[httpx.AsyncClient]:
    """The console's API, without credentials."""
    transport = httpx.ASGITransport(app=create_console_app(plane))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as made:
        yield made


@pytest.fixture
async def internal(plane: Console) -> AsyncIterator[InternalClient]:
    """The internal server."""
    app = Starlette(routes=create_internal_routes(plane))
    made = InternalClient("http://internal", "x", transport=httpx.ASGITransport(app=app))
    yield made
    await made.aclose()


@pytest.fixture
def operator(client: httpx.AsyncClient) -> "Caller":
    return Caller(client, OPERATOR_KEY)


class Caller:
    """Calls with one API key."""

    def __init__(self, client: httpx.AsyncClient, key: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"}

    async def __call__(self, method: str, path: str, **more: object) -> httpx.Response:
        return await self._client.request(method, f"/v1/{path}", headers=self._headers, **more)  # type: ignore[arg-type]

    async def tenant(self, name: str, role: str = "owner") -> "Caller":
        """A caller with a key of a (new) tenant."""
        await self("POST", "tenants", json={"name": name})
        made = await self("POST", f"keys?tenant={name}", json={"name": f"{role}-key", "role": role})
        return Caller(self._client, made.json()["secret"])

    async def order(self, name: str = "shop", **changes: object) -> dict[str, object]:
        """A new instance."""
        made = await self("POST", "instances", json={**ORDER, "name": name, **changes})
        assert made.status_code == 201, made.text
        return made.json()  # type: ignore[no-any-return]
