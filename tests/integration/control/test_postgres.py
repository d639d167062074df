"""A control process on a Postgres that goes away: in the middle of a transaction, for a while, for good."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.control.process import PATIENCE_S, ControlProcess, running_control
from tests.integration.stack import ROOT
from tests.servers.postgres import PostgresServer

ORDER = {
    "produce_rate_bytes_per_s": 1_000_000,
    "consume_rate_bytes_per_s": 1_000_000,
    "capacity_bytes": 1_000_000_000,
    "whitelist": ["10.0.0.0/8"],
}
_WRITERS_LOCK = 7_274_001


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that the test may stop."""
    own = PostgresServer()
    try:
        yield own.start()
    finally:
        own.close()


def _until(holds: Callable[[], Any], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.1)
    return found


class Follower:
    """Polls of one gateway; the position goes on from answer to answer."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._position = {"feed_id": "", "applied_revision": 0, "mark": ""}
        self.names: set[str] = set()

    def poll(self) -> bool:
        """Whether it was answered."""
        message = {"consumer": "gateway-0", "kind": "gateway", "wait_ms": 0, **self._position}
        answer = self._client.post("internal/v1/feed", json=message)
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            return False
        told = answer.json()
        self._position = {
            "feed_id": told["feed_id"],
            "applied_revision": told["revision"],
            "mark": told["mark"],
        }
        self.names |= {one["name"] for one in told.get("instances", ())}
        return True


def test_requests_are_refused_while_postgres_is_away_and_go_on_after(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.url(server.new_database())
    with (
        running_control(tmp_path / "data", "--database-url", url) as process,
        process.client(process.operator_key) as operator,
        process.internal_client() as internal,
    ):
        follower = Follower(internal)
        assert operator.post("instances", json={"name": "before", **ORDER}).status_code == 201
        _until(lambda: follower.poll() and "before" in follower.names)
        server.stop(signal.SIGQUIT)
        for method, path, body in (("GET", "instances", None), ("POST", "instances", {"name": "x", **ORDER})):
            refused = operator.request(method, path, json=body)
            assert refused.status_code == 503, refused.text
            assert refused.headers["retry-after"] == "5"
            assert "database" in refused.json()["detail"]
        assert not follower.poll()
        assert process.metric("portico_store_up") == 0
        told = process.log().count("\n")
        time.sleep(3)
        said = process.log().splitlines()[told:]
        assert len([line for line in said if "[error" in line]) < 20, "no busy loop"
        server.start()
        _until(lambda: operator.get("instances").status_code == 200)
        made = operator.post("instances", json={"name": "after", **ORDER})
        assert made.status_code == 201, made.text
        _until(lambda: follower.poll() and "after" in follower.names)
        assert [one["name"] for one in operator.get("instances").json()["items"]] == ["after", "before"]


def test_a_transaction_that_loses_its_server_leaves_no_trace(server: PostgresServer, tmp_path: Path) -> None:
    database = server.new_database()
    with (
        running_control(tmp_path / "data", "--database-url", server.url(database)) as process,
        process.client(process.operator_key) as operator,
        server.connect(database) as blocker,
    ):
        assert operator.post("tenants", json={"name": "acme"}).status_code == 201
        blocker.execute("BEGIN")
        blocker.execute(
            f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"
        )  # the writer waits in its transaction
        with process.client(process.operator_key) as writer:
            answers: list[httpx.Response] = []
            order = {"name": "lost", **ORDER}
            thread = threading.Thread(target=lambda: answers.append(writer.post("instances", json=order)))
            thread.start()
            waiting = (
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                f" AND objid = {_WRITERS_LOCK}"
            )
            with server.connect(database) as look:
                _until(lambda: look.execute(waiting).fetchone() != (0,))
            while thread.is_alive():  # it may wait behind another writer of its process
                server.disconnect(database, "portico%")
                thread.join(0.5)
        assert [answer.status_code for answer in answers] == [503]
        blocker.execute("ROLLBACK")
        assert operator.get("instances").json()["items"] == []
        assert operator.post("instances", json={"name": "lost", **ORDER}).status_code == 201


@pytest.mark.long
def test_a_writer_that_never_gives_its_turn_up_is_waited_for_with_a_bound(
    server: PostgresServer, tmp_path: Path
) -> None:
    database = server.new_database()
    with (
        running_control(tmp_path / "data", "--database-url", server.url(database)) as process,
        process.client(process.operator_key) as operator,
        server.connect(database) as blocker,
    ):
        assert operator.get("tenants").status_code == 200  # from here on its key's use is known
        operator.timeout = 3 * PATIENCE_S
        blocker.execute("BEGIN")
        blocker.execute(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")
        refused = operator.post("tenants", json={"name": "acme"})
        assert refused.status_code == 503
        assert operator.get("tenants").status_code == 200, "readers wait for no writer"
        blocker.execute("ROLLBACK")
        assert operator.post("tenants", json={"name": "acme"}).status_code == 201


@pytest.mark.parametrize(
    ("database", "sentence"),
    [("nobody-made-this", "cannot be opened"), ("newer", "schema 9999 is newer than this release knows")],
)
def test_a_database_that_cannot_be_used_is_said_in_a_sentence(
    postgres: PostgresServer, tmp_path: Path, database: str, sentence: str
) -> None:
    if database == "newer":
        database = postgres.new_database()
        with postgres.connect(database) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)")
            connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    url = postgres.url(database).replace("portico@", "portico:the-password@")
    process = ControlProcess(tmp_path / "data", "--database-url", url)
    ended = subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.control", *process.arguments()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert "the-password" not in ended.stderr
