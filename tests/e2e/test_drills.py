"""The drills of the runbooks, as operators do them: `portico drill`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from ctl.drills.catalogue import DRILLS
from tests.integration.stack import ROOT, Stack
from tests.servers.postgres import PostgresServer
from tests.servers.redis_server import RedisServer

ALONE: Final = ("gateway", "control", "redis", "postgres")
WITH_OTHERS: Final = ("broker", "two-brokers", "offline", "zookeeper", "master", "disk")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runtime.start", "ctl.main", "drill", *arguments]


def drill(
    *arguments: str, variables: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=900,
    )


def _passed(told: "subprocess.CompletedProcess[str]", names: tuple[str, ...]) -> dict[str, Any]:
    assert told.stdout, told.stderr
    results = {each["drill"]: each for each in map(json.loads, told.stdout.splitlines())}
    assert tuple(results) == names
    for name, result in results.items():
        assert result["passed"], json.dumps(result, indent=1)
        kinds = {entry["kind"] for entry in result["timeline"]}
        assert {"fault", "alert", "sign", "undo", "clients"} <= kinds, name
    assert told.returncode == 0, told.stderr
    return results


def test_every_drill_is_done_by_a_test() -> None:
    assert {*ALONE, *WITH_OTHERS} == DRILLS.keys()
    assert len(json.loads(drill("list", "--json").stdout)) == len(DRILLS)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_one_broker_goes_through(redis_server: RedisServer, postgres: PostgresServer) -> None:
    redis_server.ask().flushall()
    database = postgres.new_database()
    stores = {
        "PORTICO_DRILL_REDIS_URL": redis_server.url.text,
        "PORTICO_DRILL_POSTGRES_URL": postgres.url(database),
        "PORTICO_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/not-the-drills",
    }
    _passed(drill(*ALONE, "--json", variables=stores), ALONE)
    assert redis_server.ask().dbsize() == 0
    with postgres.connect(database) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(900)
def test_what_a_cluster_goes_through() -> None:
    told = drill(*WITH_OTHERS, "--json")
    if "small disks, which is not allowed here" in told.stderr:
        pytest.skip(told.stderr)
    results = _passed(told, WITH_OTHERS)
    assert any(entry["kind"] == "repair" for entry in results["disk"]["timeline"])
    doctors = [entry["text"] for entry in results["broker"]["timeline"] if entry["kind"] == "doctor"]
    assert doctors, "the doctor sees a broker that stands still"


def test_a_running_stack_is_hurt_only_when_that_is_meant(stack: Stack, tmp_path: Path) -> None:
    stack.create_instance("bystander")
    here = ("--running", "--data-dir", str(stack.data_dir))
    for arguments, says in (
        (("gateway", *here), "say --among-tenants when you mean it"),
        (("redis", *here, "--among-tenants"), "needs a stack that the drill has started"),
        (("broker", *here, "--among-tenants"), "needs 3 brokers; this stack has 1"),
        (("gateway", "--among-tenants"), "--among-tenants is for --running"),
        (("redis",), "--redis-url URL"),
        (("moon",), "there is no drill 'moon'"),
    ):
        refused = drill(*arguments)
        assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    nobody = drill("gateway", "--running", "--data-dir", str(tmp_path))
    assert nobody.returncode == 1 and "no stack runs on" in nobody.stderr


def test_a_store_with_data_is_left_alone(redis_server: RedisServer, postgres: PostgresServer) -> None:
    redis_server.ask().set("somebody's", "data")
    refused = drill("redis", "--redis-url", redis_server.url.text)
    assert refused.returncode == 2 and "not empty" in refused.stderr
    assert redis_server.ask().get("somebody's") == b"data"
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute("CREATE TABLE somebodys (data text)")
    refused = drill("postgres", "--postgres-url", postgres.url(database))
    assert refused.returncode == 2 and "not empty" in refused.stderr
    with postgres.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM somebodys").fetchone() == (0,)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.long
def test_a_drill_that_is_stopped_undoes_its_fault(stack: Stack) -> None:
    control = int(stack.facts["pids"]["control"][0])
    before = {one["id"] for one in stack.api("GET", "instances", limit=1000, tenant="*")["items"]}
    here = ("--running", "--data-dir", str(stack.data_dir), "--among-tenants")
    with subprocess.Popen(
        command("control", *here, "--hold-s", "20"), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert any("SIGSTOP" in line for line in running.stderr)
        deadline = time.monotonic() + 20
        while _state(control) != "T":
            assert time.monotonic() < deadline
        running.send_signal(signal.SIGINT)
        told = running.stderr.read()
    assert running.returncode == 130, told
    assert "SIGCONT" in told
    assert int(stack.facts["pids"]["control"][0]) == control and _state(control) != "T"
    after = {one["id"] for one in stack.api("GET", "instances", limit=1000, tenant="*")["items"]}
    assert after <= before, "what the drill made is removed"
