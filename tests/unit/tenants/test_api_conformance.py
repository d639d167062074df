"""What the API answers is what its document says: schemathesis asks for everything, rightly and wrongly."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import jsonschema_rs
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from runtime.internal_http import InternalClient
from tenants.app import BODY_BYTES_MAX, create_console_app
from tenants.config import ConsoleConfig
from tenants.console import Console
from tenants.rules.vports import parse_vip
from tests.openapi import KEPT
from tests.servers.databases import SqliteDatabases

from .conftest import OPERATOR_KEY, ORDER, MasterServer

CHECKS: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]
"""503 is documented, since there is no broker here; 500 is documented nowhere."""
HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
_ENDLESS: Final = r"/stream$"
_KEY: Final = {"Authorization": f"Bearer {OPERATOR_KEY}"}


@pytest.fixture(scope="module")
def console_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console without brokers."""
    with served(tmp_path_factory.mktemp("conformance")) as url:
        yield url


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """From a thread."""
    told: list[str] = []
    ready, over = threading.Event(), threading.Event()
    database_url = SqliteDatabases(directory).new()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(database_url, lambda url: (told.append(url), ready.set()), over))
    )
    thread.start()
    assert ready.wait(30)
    try:
        yield told[0]
    finally:
        over.set()
        thread.join()


async def _serve(database_url: str, tell: Callable[[str], object], over: threading.Event) -> None:
    master = MasterServer()
    config = ConsoleConfig(
        database_url=database_url,
        vip_pool=parse_vip("127.0.0.1", 21000, 21019),
        default_cluster_id="builtin-1",
        secret="secret-of-this-deployment",
        tables_dir=None,
    )
    client = InternalClient("http://master", "x", transport=httpx.ASGITransport(app=master.app))
    console = Console(config, client, is_free=lambda _: True)
    console.bootstrap(OPERATOR_KEY)
    server = uvicorn.Server(
        uvicorn.Config(create_console_app(console), port=0, log_level="warning", lifespan="off")
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, headers=_KEY) as ask:
        made = (await ask.post("/v1/instances", json={**ORDER, "name": "shop"})).json()
        master.knows(made["id"])
    tell(url)
    await asyncio.to_thread(over.wait)
    server.should_exit = True
    await serving
    await client.aclose()
    console.close()


def conforms(url: str, examples: int) -> None:
    """Ask every operation so often, with requests as documented and with others."""
    schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json").exclude(path_regex=_ENDLESS)
    asked = 0
    for result in schema.get_all_operations():
        operation: Any = result.ok()
        asked += 1

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(base_url=url, headers=_KEY, checks=CHECKS)

        ask()
    assert asked > 50


def is_as_documented(url: str, directory: Path, phases: str, *options: str, key: str = OPERATOR_KEY) -> None:
    """By schemathesis' own command and each of its checks, as whoever uses the API would run it: nothing
    undocumented is answered, nothing valid refused, nothing else accepted, no method lacks in `Allow`."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{url}/v1/openapi.json", "--header", f"Authorization: Bearer {key}"),
        *("--exclude-path-regex", _ENDLESS, "--phases", phases, "--continue-on-failure"),
        # What is hard to make an example of says nothing of the API.
        *("--suppress-health-check", "filter_too_much,large_base_example"),
        *("--generation-deterministic", "--no-color", *options),
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.unit.tenants.conformance_hooks"}
    done = subprocess.run(
        command, cwd=directory, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-200_000:] + done.stderr[-2_000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated is not None and int(generated[1]) > 100, done.stdout


@pytest.mark.long
def test_a_few_requests_of_each_kind(console_url: str) -> None:
    conforms(console_url, 4)


def test_some_operations_are_as_documented(console_url: str, tmp_path: Path) -> None:
    is_as_documented(
        console_url, tmp_path, "coverage", "--include-path-regex", "^/v1/(group-roles|keys|clusters|tenants)"
    )


SHAPED: Final = (
    ("POST", "/v1/instances"),
    ("POST", "/v1/instances/{instance}/acls"),
    ("POST", "/v1/instances/{instance}/faults"),
    ("PUT", "/v1/instances/{instance}/whitelist"),
    ("PUT", "/v1/instances/{instance}/oauth"),
    ("POST", "/v1/instances/{instance}/topics"),
    ("PUT", "/v1/instances/{instance}/topics/{topic}/decoding"),
    ("POST", "/v1/instances/{instance}/topics/{topic}/messages"),
    ("POST", "/v1/instances/{instance}/groups/{group}/reset-offsets"),
    ("PUT", "/v1/clusters/{name}"),
)
"""Operations whose fields go together, or have patterns."""


@pytest.mark.parametrize(("method", "path"), SHAPED)
def test_a_body_is_refused_where_its_schema_does_not_admit_it_and_only_there(
    console_url: str, method: str, path: str
) -> None:
    document = json.loads(KEPT.read_text())
    operation: Any = schemathesis.openapi.from_dict(document)[path][method]
    said = document["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]["schema"]
    admits = jsonschema_rs.validator_for({**said, "components": document["components"]}).is_valid
    places = {"{instance}": "shop", "{topic}": "orders", "{group}": "billing", "{name}": "kafka-2"}
    url = console_url + re.sub(r"\{\w+\}", lambda found: places[found[0]], path)

    @settings(
        max_examples=16,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy() | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case) -> None:
        assume(_is_json(case.body))
        answer = httpx.request(method, url, json=case.body, headers=_KEY)
        wanted = {*range(200, 300), 404, 409, 503} if admits(case.body) else {404, 409, 422}
        is_too_large = len(answer.request.content) > BODY_BYTES_MAX
        assert answer.status_code in ({413} if is_too_large else wanted), (case.body, answer.text)

    ask()


def _is_json(body: object) -> bool:
    """Not what is left out, nor bytes."""
    try:
        json.dumps(body)
    except TypeError:
        return False
    return True


def test_allow_names_every_method_of_a_path(console_url: str) -> None:
    paths = httpx.get(f"{console_url}/v1/openapi.json").json()["paths"]
    for path, operations in paths.items():
        said = {method.upper() for method in operations}
        answer = httpx.options(console_url + re.sub(r"\{\w+\}", "x", path), headers=_KEY)
        assert answer.status_code == 405, path
        told = {one.strip() for one in answer.headers["allow"].split(",")}
        assert told == said | ({"HEAD"} if "GET" in said else set()), path


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_requests_of_each_kind(console_url: str) -> None:
    conforms(console_url, 150)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_operation_is_as_documented(console_url: str, tmp_path: Path) -> None:
    is_as_documented(console_url, tmp_path, "examples,coverage,fuzzing,stateful", "--max-examples", "20")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_operation_is_as_documented_to_a_tenant(tmp_path: Path) -> None:
    with served(tmp_path) as url:
        with httpx.Client(base_url=f"{url}/v1", headers=_KEY) as operator:
            operator.post("/tenants", json={"name": "acme"})
            made = operator.post("/keys?tenant=acme", json={"name": "owner", "role": "owner"}).json()
            operator.post("/instances?tenant=acme", json=ORDER).raise_for_status()
        is_as_documented(
            url, tmp_path, "examples,coverage,fuzzing", "--max-examples", "10", key=made["secret"]
        )
