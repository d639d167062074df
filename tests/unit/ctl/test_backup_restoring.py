"""Backups and restores of data directories without processes: real stores, trees and logs."""

import asyncio
import fcntl
import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import insert, select, update

from broker.metadata import znode_paths as paths
from broker.metadata.znodes import decode_state, decode_topic
from broker.storage.log_directory import LOCK
from ctl.backup.log_survey import survey
from ctl.backup.places import Named, Places, find_places
from ctl.backup.restoring import Restored, Wishes, restore
from ctl.backup.taking import take
from ctl.backup.tree_nodes import TreeNode, nodes_of_file, write_file
from ctl.errors import CommandError
from master.journal import Journal
from tenants.config import sqlite_url
from tenants.store import dump, schema
from tenants.store.engine import Store, feed_position, next_revision
from tests.servers.postgres import PostgresServer
from tests.unit.broker_log.builders import (
    TOPIC,
    TOPIC_ID,
    append,
    batch,
    crash,
    fill,
    flush,
    new_log_in,
    open_manager,
)
from tests.unit.ctl.test_backup_raising import OLD, tree

PASSPHRASE: Final = "correct horse battery"
NOW_MS: Final = 1_700_000_000_000


def quiet(_text: str) -> None:
    """Nobody listens."""


class Deployment:
    """A data directory of a broker alone, stopped."""

    def __init__(self, data_dir: Path, tenant: str = "acme") -> None:
        self.data_dir = data_dir
        self.places.layout.ensure_secret()
        self.places.layout.control_dir.mkdir()
        with closing(self.store()) as store, store.write() as connection:
            connection.execute(insert(schema.tenants).values(name=tenant, created_at_ms=1))
            next_revision(connection)
        with closing(Journal(sqlite_url(str(self.places.journal_file)))) as journal:
            journal.keep_term(57)
        asyncio.run(
            write_file(self.places.tree_file, [TreeNode(*node) for node in tree({"a": [(1,)]}).items()])
        )
        self.logs.mkdir()

    @property
    def places(self) -> Places:
        return find_places(self.data_dir, Named())

    @property
    def logs(self) -> Path:
        return self.data_dir / "broker-1" / "logs"

    def store(self) -> Store:
        return Store.open(self.places.database_url)

    def tenants(self) -> list[str]:
        with closing(self.store()) as store, store.read() as connection:
            return list(connection.scalars(select(schema.tenants.c.name)))

    def nodes(self) -> dict[str, bytes]:
        return {node.path: node.data for node in nodes_of_file(self.places.tree_file)}

    def back_up(self, file: Path, passphrase: str | None = PASSPHRASE) -> Path:
        with file.open("wb") as stream:
            take(self.places, stream, passphrase, NOW_MS, quiet)
        return file

    def restore(self, file: Path, **wishes: Any) -> Restored:
        return restore(self.places, file, Wishes(**wishes), NOW_MS, quiet)

    def lose(self) -> None:
        shutil.rmtree(self.data_dir / "control")
        self.places.tree_file.unlink()


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "data")


@pytest.fixture
def file(deployment: Deployment, tmp_path: Path) -> Path:
    return deployment.back_up(tmp_path / "backup.zip")


def contents(directory: Path) -> dict[str, bytes]:
    """Of every file but locks and SQLite's own, which readers make."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal"))
    }


def test_what_is_lost_comes_back(deployment: Deployment, file: Path) -> None:
    deployment.lose()
    done = deployment.restore(file)
    assert done.set_aside is None
    assert deployment.tenants() == ["acme"]
    assert decode_topic(deployment.nodes()[paths.topic_path("a")]).topic_id == OLD
    with closing(Journal(sqlite_url(str(deployment.places.journal_file)))) as journal:
        assert journal.last_term() > 57, "points refuse leases of an earlier term"


def test_what_is_there_is_set_aside(deployment: Deployment, file: Path) -> None:
    with closing(deployment.store()) as store, store.write() as connection:
        connection.execute(update(schema.tenants).values(name="renamed"))
    before = contents(deployment.data_dir)
    aside = deployment.restore(file).set_aside
    assert deployment.tenants() == ["acme"]
    assert aside is not None
    with closing(sqlite3.connect(aside / "control" / "portico.db")) as database:
        assert database.execute("SELECT name FROM tenants").fetchall() == [("renamed",)]
    assert (aside / "broker-1" / "metadata.sqlite").exists()
    assert contents(deployment.data_dir).keys() >= before.keys(), "nothing is gone"
    with closing(Journal(sqlite_url(str(deployment.places.journal_file)))) as journal:
        assert journal.last_term() == 57, "the one that is here knows best"


def test_a_restore_is_a_history_of_its_own(deployment: Deployment, file: Path) -> None:
    with closing(deployment.store()) as store, store.read() as connection:
        before = feed_position(connection)[0]
    deployment.restore(file)
    with closing(deployment.store()) as store, store.read() as connection:
        assert feed_position(connection)[0] != before
        assert dump.first_feed(connection) == before
    deployment.restore(file)  # again, over what was restored: still the same deployment


def test_an_empty_directory_becomes_the_deployment(
    deployment: Deployment, file: Path, tmp_path: Path
) -> None:
    (deployment.data_dir / "portico.toml").write_text('region = "x"\n'.replace("region", "ckafka_region"))
    whole = deployment.back_up(tmp_path / "whole.zip")
    places = find_places(tmp_path / "new", Named())
    with pytest.raises(CommandError, match="passphrase-file opens"):
        restore(places, file, Wishes(logs_are_lost=True), NOW_MS, quiet)
    with pytest.raises(CommandError, match=r"broker 1 are not here.*--logs-lost"):
        restore(places, file, Wishes(passphrase=PASSPHRASE), NOW_MS, quiet)
    restore(places, whole, Wishes(passphrase=PASSPHRASE, logs_are_lost=True), NOW_MS, quiet)
    assert places.secret() == deployment.places.secret()
    assert places.secret_file.stat().st_mode & 0o777 == 0o600
    assert places.layout.settings_file.read_text() == 'ckafka_region = "x"\n'
    with pytest.raises(CommandError, match="another passphrase"):
        restore(places, whole, Wishes(passphrase="something else altogether"), NOW_MS, quiet)


def test_a_backup_without_secrets_says_what_is_missing(deployment: Deployment, tmp_path: Path) -> None:
    file = deployment.back_up(tmp_path / "open.zip", passphrase=None)
    secret = deployment.places.secret_file.read_bytes()
    assert secret.strip() not in file.read_bytes()
    with pytest.raises(CommandError, match="the backup holds none"):
        restore(find_places(tmp_path / "new", Named()), file, Wishes(), NOW_MS, quiet)


def _foreign_secret(deployment: Deployment) -> None:
    deployment.places.secret_file.write_text("another-secret-of-another-deployment\n")


def _foreign_store(deployment: Deployment) -> None:
    deployment.places.database_file.unlink()
    deployment.store().close()


@pytest.mark.parametrize("change", [_foreign_secret, _foreign_store])
def test_another_deployments_backup_is_refused_unless_it_is_meant(
    deployment: Deployment, file: Path, change: Callable[[Deployment], None]
) -> None:
    change(deployment)
    before = contents(deployment.data_dir)
    with pytest.raises(CommandError, match="--another-deployment"):
        deployment.restore(file)
    assert contents(deployment.data_dir) == before
    deployment.restore(file, takes_foreign=True)
    assert deployment.tenants() == ["acme"]


def test_a_damaged_backup_changes_nothing(deployment: Deployment, file: Path) -> None:
    content = file.read_bytes()
    third = len(content) // 3
    file.write_bytes(content[:third] + bytes(100) + content[third + 100 :])
    before = contents(deployment.data_dir)
    with pytest.raises(CommandError):
        deployment.restore(file)
    assert contents(deployment.data_dir) == before


def test_what_is_broken_here_is_no_reason_not_to_restore(deployment: Deployment, file: Path) -> None:
    deployment.places.database_file.write_bytes(b"no database at all" * 100)
    deployment.places.tree_file.write_bytes(b"nor this" * 100)
    deployment.restore(file)
    assert deployment.tenants() == ["acme"]


def test_nothing_is_restored_below_a_running_broker(deployment: Deployment, file: Path) -> None:
    with (deployment.logs / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="stop it first"):
            deployment.restore(file)
    with deployment.places.layout.lock_file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="stop it first"):
            deployment.restore(file)


def test_sqlite_goes_into_postgres_and_back(
    deployment: Deployment, file: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.url(postgres.new_database())
    named = find_places(deployment.data_dir, Named(database_url=url))
    restore(named, file, Wishes(), NOW_MS, quiet)
    assert deployment.places.database_file.exists(), "it is not what was restored"
    with pytest.raises(CommandError, match="is not empty"):
        restore(named, file, Wishes(), NOW_MS, quiet)
    with closing(Store.open(url)) as store, store.write() as connection:
        connection.execute(update(schema.tenants).values(name="on-postgres"))
    back = tmp_path / "back.zip"
    with back.open("wb") as stream:
        assert take(named, stream, PASSPHRASE, NOW_MS, quiet).database == "postgresql"
    deployment.restore(back)
    assert deployment.tenants() == ["on-postgres"]


def test_what_cannot_be_backed_up_is_said(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no deployment's secret"), (tmp_path / "x").open("wb") as stream:
        take(find_places(tmp_path / "nothing", Named()), stream, None, NOW_MS, quiet)
    deployment.places.tree_file.unlink()
    with pytest.raises(CommandError, match=r"metadata\.sqlite does not exist"):
        deployment.back_up(tmp_path / "y")
    deployment.places.database_file.unlink()
    with pytest.raises(CommandError, match=r"portico\.db does not exist"):
        deployment.back_up(tmp_path / "z")
    assert not deployment.places.database_file.exists(), "and none was made"


# -- logs ------------------------------------------------------------------------------------------------


def test_a_log_says_how_far_it_comes(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    [empty] = survey({7: [tmp_path]}, lambda _: None)
    assert empty[:4] == (7, TOPIC, 0, TOPIC_ID)
    assert (empty.leader_epoch, empty.end_offset) == (-1, 0)
    fill(log, 40)
    append(log, batch("x"), leader_epoch=9)
    crash(manager)  # nothing of it was flushed
    [found] = survey({7: [tmp_path]}, lambda _: None)
    assert (found.leader_epoch, found.end_offset) == (9, log.log_end_offset) == (9, 41)
    assert abs(found.made_ns / 10**9 - time.time()) < 3600


def test_a_torn_end_is_none(tmp_path: Path) -> None:
    manager, _ = open_manager(tmp_path)
    log = new_log_in(manager)
    fill(log, 5)
    flush(manager)
    crash(manager)
    newest = max(tmp_path.glob("*/*.log"))
    newest.write_bytes(newest.read_bytes()[:-1])
    [found] = survey({7: [tmp_path]}, lambda _: None)
    assert found.end_offset == 4


def test_a_topic_that_only_its_log_knows_is_served_again(deployment: Deployment, file: Path) -> None:
    manager, _ = open_manager(deployment.logs)
    append(new_log_in(manager), batch("x"), leader_epoch=123)
    manager.close()
    assert deployment.restore(file).changed.found == (TOPIC,)
    nodes = deployment.nodes()
    assert decode_topic(nodes[paths.topic_path(TOPIC)]).topic_id == TOPIC_ID
    assert decode_state(nodes[paths.state_path(TOPIC, 0)]).leader_epoch > 123


def test_a_postgres_that_only_the_running_stack_was_told_of_has_to_be_named(deployment: Deployment) -> None:
    setting = {
        "database_url": {"value": "postgresql+psycopg://user:***@host/name", "origin": "--database-url"}
    }
    deployment.places.layout.stack_file.write_text(json.dumps({"settings": setting}))
    with pytest.raises(CommandError, match="PORTICO_DATABASE_URL"):
        find_places(deployment.data_dir, Named())
    named = find_places(deployment.data_dir, Named(database_url="postgresql://user@host/name"))
    assert named.has_postgres
