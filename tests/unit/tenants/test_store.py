"""Migrations, transactions, and what the outbox tells followers."""

import threading
from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, func, select

from tenants.console import Console
from tenants.lifecycle import State
from tenants.model import DEFAULT_TENANT, Caller, Role
from tenants.store import changes, instances, lineages, schema
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


def _open(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path}/s.db")


def test_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    _open(tmp_path).close()
    engine = create_engine(f"sqlite:///{tmp_path}/s.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_what_was_being_purged_waits_again_after_the_upgrade(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    config = Config()
    config.set_main_option("script_location", str(files("tenants.store") / "migrations"))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        for key, value in (("feed_id", "before"), ("revision", "9")):
            connection.exec_driver_sql("INSERT INTO settings VALUES (?, ?)", (key, value))
        connection.exec_driver_sql("INSERT INTO tenants (name, created_at_ms) VALUES ('t', 1)")
        connection.exec_driver_sql("INSERT INTO clusters VALUES ('c', 1)")
        for number, state in enumerate(("running", "deleting", "deleted")):
            connection.exec_driver_sql(
                "INSERT INTO instances (id, tenant, name, state, cluster_id, produce_rate_bytes_per_s,"
                " consume_rate_bytes_per_s, capacity_bytes, limits, full_behaviour, auto_create_topics,"
                " allow_all, whitelist, topic_whitelists, listeners_withheld, revision, created_at_ms,"
                f" updated_at_ms) VALUES ('iaaaaaaaaaa{number + 2}', 't', 'shop', '{state}', 'c', 1, 1, 1,"
                " '{}', 'reject', 0, 0, '[]', '{}', 0, 1, 1, 1000)"
            )
    engine.dispose()
    store = Store.open(url)
    with store.read() as connection:
        found = {
            one.id[-1]: one for one in instances.by_ids(connection, [f"iaaaaaaaaaa{n}" for n in (2, 3, 4)])
        }
    store.close()
    assert [found[key].state for key in "234"] == [State.RUNNING, State.DELETED, State.PURGED]
    deletion = found["3"].deletion
    assert deletion is not None
    assert (deletion.lineage, deletion.purge_after_ms) == ("before", 1000 + 7 * 24 * 3600 * 1000)
    assert found["2"].deletion is None


def test_opening_again_keeps_feed_and_revision(tmp_path: Path) -> None:
    store = _open(tmp_path)
    with store.write() as connection:
        next_revision(connection)
        before = feed_position(connection)
    store.close()
    again = _open(tmp_path)
    with again.read() as connection:
        assert feed_position(connection) == before
    assert before[1] == 1
    again.close()


def test_a_file_that_is_no_database_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("this is no database, but long enough to be looked at " * 10)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        _open(tmp_path)


def test_a_failed_transaction_leaves_no_trace(tmp_path: Path) -> None:
    store = _open(tmp_path)

    def fail_half_way() -> None:
        with store.write() as connection:
            next_revision(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    with store.read() as connection:
        assert feed_position(connection)[1] == 0
    store.close()


def test_writers_in_threads_draw_different_revisions(tmp_path: Path) -> None:
    store = _open(tmp_path)
    drawn: list[int] = []

    def draw() -> None:
        for _ in range(10):
            with store.write() as connection:
                drawn.append(next_revision(connection).revision)

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == list(range(1, 41))
    store.close()


def test_followers_get_everything_first_and_then_what_changed(plane: Console) -> None:
    first = plane.instances.create(_CALLER, DEFAULT_TENANT, _order("one"))
    with plane.store.read() as connection:
        everything = changes.since(connection, Position("", 0, ""))
        assert everything.full
        assert {spec.name for spec in everything.instances} == {"one", "system"}
        assert [cluster.cluster_id for cluster in everything.clusters] == ["builtin-1"]
    plane.instances.create(_CALLER, DEFAULT_TENANT, _order("two"))
    plane.instances.suspend(_CALLER, first.id, None)
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
    plane.instances.delete(_CALLER, made.id, None)
    with plane.store.read() as connection:
        told = {spec.instance_id: spec for spec in changes.since(connection, Position("", 0, "")).instances}
    assert told[made.id].state == "deleted"
    assert told[made.id].listeners == ()
    with plane.store.write() as connection:
        instances.set_state(connection, made.id, State.PURGED, None)
        assert made.id not in {
            spec.instance_id for spec in changes.since(connection, Position("", 0, "")).instances
        }
