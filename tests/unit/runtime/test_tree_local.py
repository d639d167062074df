"""The tree in a file: what survives a restart, what a full disk does, and that nothing unkept is seen."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from contracts.tree import Create, Delete, SessionState, SetData, TreeUnavailable
from runtime.tree.local import LocalTree
from runtime.tree.pure import Record
from runtime.tree.store import StoreFailed, TreeStore


async def opened(path: Path) -> LocalTree:
    tree = LocalTree(path)
    await tree.start()
    return tree


async def test_a_restart_keeps_what_lasts_and_ends_what_is_ephemeral(tmp_path: Path) -> None:
    tree = await opened(tmp_path / "tree.db")
    await tree.commit([Create("/a", b"1"), Create("/a/b", b"2"), Create("/a/e", ephemeral=True)])
    await tree.commit([SetData("/a", b"3"), Create("/a/s", sequential=True), Delete("/a/b")])
    before = await tree.get("/a")
    await tree.aclose()

    tree = await opened(tmp_path / "tree.db")
    assert await tree.get("/a") == before
    assert await tree.children("/a") == ["s0000000002"]
    [again] = await tree.commit([Create("/a/s", sequential=True)])
    assert again.path == "/a/s0000000003"
    await tree.aclose()


async def test_a_later_start_has_larger_ids_though_nothing_of_the_last_was_kept(tmp_path: Path) -> None:
    czxids, sessions = [], []
    for _ in range(3):
        tree = await opened(tmp_path / "tree.db")
        [made] = await tree.commit([Create("/broker", ephemeral=True)])
        assert made.stat is not None
        czxids.append(made.stat.czxid)
        sessions.append(tree.session_id)
        await tree.aclose()
    assert czxids == sorted(set(czxids))
    assert sessions == sorted(set(sessions))


async def test_what_cannot_be_written_did_not_happen(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path / "tree.db")
    tree = LocalTree(tmp_path / "tree.db")
    tree._store = store
    await tree.start()
    await tree.commit([Create("/a", b"kept"), Create("/e", b"mine", ephemeral=True)])
    told: list[str] = []
    tree.watch_data("/a", lambda: told.append("a"))
    store.full = True
    outcomes = await asyncio.gather(
        tree.commit([SetData("/a", b"lost")]),
        tree.get("/a"),
        tree.commit([Delete("/e")]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [TreeUnavailable] * 3
    store.full = False
    kept, mine = await tree.get_many(["/a", "/e"])
    assert kept is not None
    assert mine is not None
    assert (kept.data, kept.stat.version, mine.data) == (b"kept", 0, b"mine")
    assert told == []
    await tree.commit([SetData("/a", b"now", version=0)])
    assert told == ["a"]
    await tree.aclose()


async def test_a_full_disk_as_sqlite_tells_it(tmp_path: Path) -> None:
    tree = await opened(tmp_path / "tree.db")
    await tree.commit([Create("/a")])
    connection = tree._store._connection
    assert connection is not None
    [[pages]] = connection.execute("PRAGMA page_count")
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(TreeUnavailable, match="full"):
        await tree.commit([Create("/a/large", b"x" * 100_000)])
    assert await tree.children("/a") == []
    connection.execute("PRAGMA max_page_count = 1000000")
    await tree.commit([Create("/a/large", b"x" * 100_000)])
    await tree.aclose()
    with pytest.raises(TreeUnavailable):
        await tree.get("/a")


async def test_a_callers_mistake_is_told_to_that_caller_only(tmp_path: Path) -> None:
    tree = await opened(tmp_path / "tree.db")
    wrong, right = await asyncio.gather(
        tree.commit([Create("no-path")]), tree.commit([Create("/a")]), return_exceptions=True
    )
    assert isinstance(wrong, AssertionError)
    assert isinstance(right, list)
    await tree.aclose()


async def test_reads_wait_until_what_they_saw_is_on_the_disk(tmp_path: Path) -> None:
    tree = await opened(tmp_path / "tree.db")
    order: list[str] = []
    tree.watch_data("/a", lambda: order.append("watch"))

    async def note(name: str, work: object) -> None:
        await work  # type: ignore[misc]
        order.append(name)

    await asyncio.gather(note("write", tree.commit([Create("/a")])), note("read", tree.get("/a")))
    assert sorted(order) == ["read", "watch", "write"]
    kept = TreeStore(tmp_path / "tree.db")
    kept.open()
    assert "/a" in dict(kept.records())
    kept.close()
    await tree.aclose()


async def test_batches_that_wait_together_are_one_transaction(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path / "tree.db")
    tree = LocalTree(tmp_path / "tree.db")
    tree._store = store
    await tree.start()
    await tree.commit([Create("/topics")])
    outcomes = await tree.commit_many(
        [
            [Create(f"/topics/{topic}"), *(Create(f"/topics/{topic}/{index}") for index in range(100))]
            for topic in range(20)
        ]
    )
    assert all(isinstance(outcome, list) for outcome in outcomes)
    await asyncio.gather(*(tree.commit([SetData(f"/topics/{topic}", b"x")]) for topic in range(20)))
    assert store.writes == 3
    await tree.aclose()


async def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "tree.db").write_bytes(b"no database, just text\n" * 100)
    with pytest.raises(TreeUnavailable, match=r"tree\.db"):
        await opened(tmp_path / "tree.db")


async def test_a_closed_tree_says_so(tmp_path: Path) -> None:
    tree = LocalTree(tmp_path / "tree.db")
    with pytest.raises(TreeUnavailable):
        await tree.get("/")


async def test_the_session_is_told(tmp_path: Path) -> None:
    tree = LocalTree(tmp_path / "tree.db")
    states: list[SessionState] = []
    tree.on_session(states.append)
    await tree.start()
    assert states == [SessionState.CONNECTED]
    await tree.aclose()


class WatchedStore(TreeStore):
    """A store that counts its transactions and whose disk is full at times."""

    full = False
    writes = 0

    def write(self, rows: Mapping[str, Record | None]) -> None:
        if self.full:
            raise StoreFailed("the disk is full")
        self.writes += 1
        super().write(rows)
