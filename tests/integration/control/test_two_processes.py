"""Two control processes on one Postgres: both serve, one runs the jobs, and the other takes over."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.control.process import PATIENCE_S, ControlProcess
from tests.integration.zookeeper.server import running_zookeeper
from tests.servers.postgres import PostgresServer

ORDER = {
    "produce_rate_bytes_per_s": 1_000_000,
    "consume_rate_bytes_per_s": 1_000_000,
    "capacity_bytes": 1_000_000_000,
    "whitelist": ["10.0.0.0/8"],
}


@pytest.fixture
def two(postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[ControlProcess, ControlProcess]]:
    """The first one runs the jobs."""
    url = postgres.url(postgres.new_database())
    secret = tmp_path / "secret"
    secret.write_text("the-secret-of-both-of-them\n")
    with running_zookeeper(tmp_path) as zookeeper:
        place = zookeeper.new_chroot()
        arguments = ("--database-url", url, "--zookeeper", place, "--secret-file", str(secret))
        made = [ControlProcess(tmp_path / name, *arguments, "--deletion-grace-ms", "0") for name in "ab"]
        made[1].vport = made[0].vport
        for each in made:
            each.layout.data_dir.mkdir()
            each.layout.secret_file.write_text(secret.read_text())
        try:
            for each in made:
                each.start()
                _until(lambda: made[0].metric("portico_control_runs_jobs") == 1)
            yield made[0], made[1]
        finally:
            for each in made:
                each.kill()


def _until(holds: Callable[[], Any], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)
    return found


class Gateway:
    """Follows the feed at one process for as long as the test runs."""

    def __init__(self, process: ControlProcess) -> None:
        self._client = process.internal_client()
        self._stopping = threading.Event()
        self.names: set[str] = set()
        self.polls = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        position: dict[str, Any] = {"feed_id": "", "applied_revision": 0, "mark": ""}
        while not self._stopping.is_set():
            message = {"consumer": "gateway-0", "kind": "gateway", "wait_ms": 8_000, **position}
            try:
                answer = self._client.post("internal/v1/feed", json=message)
            except httpx.HTTPError:
                return
            if answer.status_code != 200:
                time.sleep(0.2)
                continue
            told = answer.json()
            position = {
                "feed_id": told["feed_id"],
                "applied_revision": told["revision"],
                "mark": told["mark"],
            }
            self.polls += 1
            self.names |= {one["name"] for one in told.get("instances", ())}

    def close(self) -> None:
        self._stopping.set()
        self._client.close()


def _get(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_both_serve_and_know_the_same(two: tuple[ControlProcess, ControlProcess]) -> None:
    one, other = two
    gateway = Gateway(other)
    with one.client(one.operator_key) as here, other.client(one.operator_key) as there:
        assert other.metric("portico_control_runs_jobs") == 0
        _until(lambda: "system" in gateway.names)
        polls = gateway.polls
        made = here.post("instances", json={"name": "shop", **ORDER})
        assert made.status_code == 201, made.text
        _until(lambda: "shop" in gateway.names)
        assert gateway.polls <= polls + 3, "the poll was woken, not asked again"
        # the gateway acknowledged to the other process
        _until(lambda: _get(here, "instances/shop")["state"] == "running")
        _until(lambda: [each["live"] for each in _get(here, "health")["gateways"]] == [True])
        report = {
            "consumer": "broker-9",
            "kind": "broker",
            "cluster_id": "builtin-1",
            "holdings": [
                {"instance_id": "iaaaaaaaaaa2", "absent_since_ms": 5, "stored_bytes": 7, "partitions": 1}
            ],
        }
        with other.internal_client() as internal:
            assert internal.post("internal/v1/holdings", json=report).status_code == 200
            worker = {
                "consumer": "gateway-0",
                "boot_id": "b",
                "sent_at_ms": 1,
                "instances": [
                    {
                        "instance_id": made.json()["id"],
                        "connections": 3,
                        "closed": {"whitelist": 2},
                        "refused": [{"address": "192.0.2.1", "at_ms": 5}],
                    }
                ],
            }
            assert internal.post("internal/v1/gateway-reports", json=worker).status_code == 200
        absent = _until(lambda: _get(here, "absent-instances")["items"])
        assert [each["id"] for each in absent] == ["iaaaaaaaaaa2"]
        _until(lambda: _get(here, "instances/shop")["connections"] == 3)
        _until(lambda: len(_get(here, "instances/shop/refusals")["items"]) == 1)
        time.sleep(2.5)  # told again each second, taken once
        refusals = _get(here, "instances/shop/refusals")
        assert (len(refusals["items"]), refusals["closed"]) == (1, {"whitelist": 2})
        # credentials are everybody's
        key = here.post("keys", json={"name": "k", "role": "viewer"}).json()["secret"]
        with other.client(key) as viewer:
            assert [each["name"] for each in _get(viewer, "instances")["items"]] == ["shop"]
        login = httpx.post(
            f"http://127.0.0.1:{one.public[1]}/v1/session",
            json={"user": "admin", "password": one.admin_password},
            timeout=PATIENCE_S,
            trust_env=False,
        )
        cookies = {"portico_session": login.cookies["portico_session"]}
        session = httpx.get(
            f"http://127.0.0.1:{other.public[1]}/v1/instances",
            cookies=cookies,
            timeout=PATIENCE_S,
            trust_env=False,
        )
        assert session.status_code == 200
        assert _get(there, "instances")["items"]
    gateway.close()


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGSTOP])
def test_when_the_one_that_runs_the_jobs_is_lost_the_other_takes_them_and_purges_nothing_wrongly(
    two: tuple[ControlProcess, ControlProcess], how: signal.Signals
) -> None:
    one, other = two
    with one.client(one.operator_key) as here, other.client(other.operator_key) as there:
        for name in ("kept", "gone"):
            assert here.post("instances", json={"name": name, **ORDER}).status_code == 201
        gone = _get(here, "instances/gone")["id"]
        # a broker is registered that nobody has heard of since: nothing may be purged without it
        with one.internal_client() as internal:
            broker = {"node_id": 1, "host": "127.0.0.1", "port": 9}
            poll = {
                "consumer": "broker-1",
                "kind": "broker",
                "applied_revision": 0,
                "cluster_id": "builtin-1",
            }
            assert internal.post("internal/v1/feed", json={**poll, "broker": broker}).status_code == 200
        assert here.delete("instances/gone").status_code in (200, 202, 204)
        pid = int(one.layout.pid_of("control") or 0)
        os.kill(pid, how)
        lost = time.monotonic()
        _until(lambda: other.metric("portico_control_runs_jobs") == 1)
        print(f"fail-over of jobs after {how.name}: {time.monotonic() - lost:.1f} s")
        assert there.post("instances", json={"name": "after", **ORDER}).status_code == 201
        assert [each["name"] for each in _get(there, "instances")["items"]] == ["after", "kept"]
        time.sleep(3)  # some passes of the purge
        [waiting] = _get(there, "deleted-instances")["items"]
        assert (waiting["id"], waiting["state"]) == (gone, "deleted")
        if how is signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
            _until(lambda: one.metric("portico_control_runs_jobs") == 0)
            assert other.metric("portico_control_runs_jobs") == 1
            _until(lambda: len(_get(here, "instances")["items"]) == 2)


@pytest.mark.long
def test_without_an_election_of_the_quota_master_there_is_one_only(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(postgres.new_database())
    first = ControlProcess(tmp_path / "a", "--database-url", url).start()
    second = ControlProcess(tmp_path / "b", "--database-url", url)
    try:
        with pytest.raises(AssertionError, match="several need --zookeeper"):
            second.start()
        assert first.metric("portico_control_runs_jobs") == 1
    finally:
        first.kill()
        second.kill()


def test_a_process_says_that_the_schema_moved_and_ends_when_it_cannot_go_on(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database = postgres.new_database()
    process = ControlProcess(tmp_path / "a", "--database-url", postgres.url(database)).start()
    try:
        with postgres.connect(database) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9998'")
            _until(lambda: process.metric("portico_store_schema_ahead") == 1)
            with process.client(process.operator_key) as operator:
                assert operator.get("instances").status_code == 200, "what only expands hurts nobody"
            connection.execute("INSERT INTO settings VALUES ('oldest_schema', '9998')")
        assert process.wait() != 0
        assert "schema is 9998 now" in process.log()
    finally:
        process.kill()
