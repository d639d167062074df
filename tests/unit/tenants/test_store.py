"""Migrations, transactions, and what the outbox tells followers."""

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, func, select

from tenants.console import Console
from tenants.rules.lifecycle import State
from tenants.rules.model import DEFAULT_TENANT, Caller
from tenants.rules.permissions import Role
from tenants.store import changes, instances, lineages, migrating, schema
from tenants.store.engine import Store, StoreUnavailable, feed_position, newest, next_revision
from tenants.store.lineages import Position, Verdict
from tenants.usecases.instances import NewInstance

_CALLER = Caller("key", "k", DEFAULT_TENANT, Role.OWNER, None)


def _order(name: str) -> NewInstance:
    return NewInstance(
        name=name,
        produce_rate_bytes_per_s=10**6,
        consume_rate_bytes_per_s=10**6,
        capacity_bytes=10**9,
        allow_all=True,
    )


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    opened = Store.open(database_url)
    yield opened
    opened.close()


def test_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


@pytest.fixture
def empty(database_url: str) -> Iterator[Engine]:
    """A database without tables."""
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def _insert(connection: Connection, table: str, **values: object) -> None:
    rows = sa.table(table, *(sa.column(name) for name in values))
    connection.execute(rows.insert().values(values))


def _instances_of_0004(engine: Engine, states: Iterable[str]) -> None:
    with engine.begin() as connection:
        migrating.upgrade(connection, "0004")
        _insert(connection, "settings", key="feed_id", value="before")
        _insert(connection, "settings", key="revision", value="9")
        _insert(connection, "tenants", name="t", created_at_ms=1)
        _insert(connection, "clusters", id="c", revision=1)
        for number, state in enumerate(states):
            rates = dict.fromkeys(
                ("produce_rate_bytes_per_s", "consume_rate_bytes_per_s", "capacity_bytes"), 2**62
            )
            flags = dict.fromkeys(("auto_create_topics", "allow_all", "listeners_withheld"), sa.false())
            _insert(
                connection,
                "instances",
                id=f"iaaaaaaaaaa{number + 2}",
                tenant="t",
                name="shop",
                state=state,
                cluster_id="c",
                limits="{}",
                full_behaviour="reject",
                whitelist="[]",
                topic_whitelists="{}",
                revision=1,
                **{"created_at_ms": 1, "updated_at_ms": 1000, **rates, **flags},
            )
            _insert(
                connection,
                "ports",
                bind_host="::1",
                port=1 + number,
                advertised_host="h",
                tenant="t",
                instance_id=f"iaaaaaaaaaa{number + 2}",
            )


def test_what_was_being_purged_waits_again_after_the_upgrade(empty: Engine, database_url: str) -> None:
    _instances_of_0004(empty, ("running", "deleting", "deleted"))
    store = Store.open(database_url)
    with store.read() as connection:
        found = {
            one.id[-1]: one for one in instances.by_ids(connection, [f"iaaaaaaaaaa{n}" for n in (2, 3, 4)])
        }
    store.close()
    assert [found[key].state for key in "234"] == [State.RUNNING, State.DELETED, State.PURGED]
    assert found["2"].capacity_bytes == 2**62
    deletion = found["3"].deletion
    assert deletion is not None
    assert (deletion.lineage, deletion.purge_after_ms) == ("before", 1000 + 7 * 24 * 3600 * 1000)
    assert found["2"].deletion is None


def test_going_back_to_each_older_schema_and_up_again_keeps_the_rows(
    empty: Engine, database_url: str
) -> None:
    _instances_of_0004(empty, ("running", "deleting", "deleted"))
    for target in ("0006", "0005", "0004", "0003", "0002", "0001"):
        Store.open(database_url).close()
        with empty.begin() as connection:
            migrating.downgrade(connection, target)
            assert migrating.current(connection) == target
            rows = connection.execute(sa.text("SELECT id, name, capacity_bytes FROM instances ORDER BY id"))
            assert [tuple(row) for row in rows] == [(f"iaaaaaaaaaa{n}", "shop", 2**62) for n in (2, 3, 4)]
            assert connection.scalar(sa.text("SELECT count(*) FROM ports")) == 3
    store = Store.open(database_url)
    with store.read() as connection:
        states = instances.states(connection, [f"iaaaaaaaaaa{n}" for n in (2, 3, 4)])
        assert feed_position(connection)[0] == "before"
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    store.close()
    assert states["iaaaaaaaaaa2"] is State.RUNNING
    assert State.PURGING not in states.values(), "nobody ordered a purge by going back"


def test_a_database_without_tables_is_what_the_last_downgrade_leaves(store: Store) -> None:
    with store.write() as connection:
        migrating.downgrade(connection, "base")
        assert sa.inspect(connection).get_table_names() == [migrating.VERSION_TABLE]


def test_a_schema_of_a_newer_release_is_refused_with_a_sentence(store: Store, database_url: str) -> None:
    with store.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="schema 9999 is newer than this release knows"):
        Store.open(database_url)


def test_opening_again_keeps_feed_and_revision(store: Store, database_url: str) -> None:
    with store.write() as connection:
        next_revision(connection)
        before = feed_position(connection)
    again = Store.open(database_url)
    with again.read() as connection:
        assert feed_position(connection) == before
    assert before[1] == 1
    again.close()


def test_many_that_open_an_empty_database_at_once_migrate_it_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda _number: Store.open(database_url), range(4)))
    feeds = set()
    for each in stores:
        with each.read() as connection:
            feeds.add(feed_position(connection)[0])
        each.close()
    assert len(feeds) == 1


def test_a_new_file_that_somebody_else_turns_to_wal_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")  # SQLite refuses that change at once, whatever the busy timeout
        release = threading.Timer(0.2, other.execute, ("COMMIT",))
        release.start()
        Store.open(f"sqlite:///{path}").close()
        release.join()


def test_a_file_that_is_no_database_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("this is no database, but long enough to be looked at " * 10)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        Store.open(f"sqlite:///{tmp_path}/s.db")


def test_a_failed_transaction_leaves_no_trace(store: Store) -> None:
    def fail_half_way() -> None:
        with store.write() as connection:
            next_revision(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    with store.read() as connection:
        assert feed_position(connection)[1] == 0


def test_writers_in_threads_and_processes_draw_different_revisions(store: Store, database_url: str) -> None:
    other = Store.open(database_url)  # as another control process has it
    drawn: list[int] = []

    def draw(which: Store) -> None:
        for _ in range(10):
            with which.write() as connection:
                drawn.append(next_revision(connection).revision)

    threads = [threading.Thread(target=draw, args=(which,)) for which in (store, other) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == list(range(1, 41))
    other.close()


def test_a_reader_sees_one_state_from_beginning_to_end(store: Store) -> None:
    with store.read() as connection:
        before = feed_position(connection)
        with store.write() as writer:
            next_revision(writer)
        assert feed_position(connection) == before
    with store.read() as connection:
        assert feed_position(connection)[1] == before[1] + 1


def test_revisions_become_visible_in_order_and_without_gaps(store: Store, database_url: str) -> None:
    """What a follower reads up to revision N stays all there is up to N, whoever writes meanwhile."""
    other, done = Store.open(database_url), threading.Event()
    seen: list[tuple[int, list[int]]] = []

    def change(which: Store, seed: int) -> None:
        for _ in range(15):
            with which.write() as connection:
                drawn = next_revision(connection)
                time.sleep(0.001 * (seed % 3))
                instances.append_outbox(connection, drawn, instances.OUTBOX_CLUSTER, "c", None, 1)

    def read() -> None:
        while not done.is_set():
            with other.read() as connection:
                newest_now = newest(connection).revision
                rows = connection.execute(select(schema.outbox.c.revision).order_by(schema.outbox.c.revision))
                seen.append((newest_now, [row[0] for row in rows]))

    writers = [
        threading.Thread(target=change, args=(which, seed)) for seed, which in enumerate((store, other) * 2)
    ]
    reader = threading.Thread(target=read)
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    other.close()
    assert seen
    assert all(revisions == list(range(1, latest + 1)) for latest, revisions in seen)


def test_followers_get_everything_first_and_then_what_changed(plane: Console) -> None:
    first = plane.instances.create(_CALLER, DEFAULT_TENANT, _order("one"))
    with plane.store.read() as connection:
        everything = changes.since(connection, Position("", 0, ""))
        assert everything.full
        assert {spec.name for spec in everything.instances} == {"one", "system"}
        assert [cluster.cluster_id for cluster in everything.clusters] == ["builtin-1"]
    plane.instances.create(_CALLER, DEFAULT_TENANT, _order("two"))
    plane.instances.suspend(_CALLER, first.id)
    with plane.store.read() as connection:
        news = changes.since(connection, Position(everything.feed_id, everything.revision, everything.mark))
    assert not news.full
    assert [(spec.name, spec.state) for spec in news.instances] == [("two", "active"), ("one", "suspended")]
    assert news.clusters == ()
    assert news.revision == everything.revision + 2


def test_another_feeds_position_starts_anew_and_a_future_one_was_never_written(plane: Console) -> None:
    with plane.store.read() as connection:
        feed_id, revision = feed_position(connection)
        mark = newest(connection).mark
        assert lineages.judge(connection, Position("other", revision, mark)) is Verdict.STARTS_ANEW
        assert lineages.judge(connection, Position(feed_id, 0, "")) is Verdict.STARTS_ANEW
        assert lineages.judge(connection, Position(feed_id, revision + 1, mark)) is Verdict.NEVER_WRITTEN
        assert lineages.judge(connection, Position(feed_id, revision, "forged")) is Verdict.NEVER_WRITTEN
        assert lineages.judge(connection, Position(feed_id, revision - 1, mark)) is Verdict.NEVER_WRITTEN
        assert changes.since(connection, Position("other", revision, mark)).full
        assert not changes.since(connection, Position(feed_id, revision, mark)).full


def test_a_follower_behind_the_kept_changes_starts_anew(
    plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "OUTBOX_KEPT", 3)
    positions = []
    for name in ("a", "b", "c", "d", "e"):
        with plane.store.read() as connection:
            positions.append(Position(feed_position(connection)[0], *newest(connection)))
        plane.instances.create(_CALLER, DEFAULT_TENANT, _order(name))
    with plane.store.read() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.outbox)) == 3
        old, youngest_kept = positions[2], positions[3]
        assert lineages.judge(connection, old) is Verdict.STARTS_ANEW
        assert changes.since(connection, old).full
        news = changes.since(connection, youngest_kept)
        assert not news.full
        assert [spec.name for spec in news.instances] == ["d", "e"]


def test_deleted_instances_stay_in_the_feed_until_they_are_purged(plane: Console) -> None:
    made = plane.instances.create(_CALLER, DEFAULT_TENANT, _order("one"))
    plane.instances.delete(_CALLER, made.id)
    with plane.store.read() as connection:
        told = {spec.instance_id: spec for spec in changes.since(connection, Position("", 0, "")).instances}
    assert told[made.id].state == "deleted"
    assert told[made.id].listeners == ()
    with plane.store.write() as connection:
        instances.set_state(connection, made.id, State.PURGED, None)
        assert made.id not in {
            spec.instance_id for spec in changes.since(connection, Position("", 0, "")).instances
        }
