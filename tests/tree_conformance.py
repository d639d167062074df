"""What every metadata tree must do, whatever keeps it. Subclasses give the fixture `tree`."""

import asyncio
from collections.abc import Callable

import pytest

from contracts.tree import Check, Conflict, Create, Delete, SetData, Tree, TreeConflict


async def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Until something holds."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


async def refusal(tree: Tree, *ops: object) -> tuple[int, Conflict]:
    """Position and reason of a refused commit."""
    with pytest.raises(TreeConflict) as raised:
        await tree.commit(list(ops))  # type: ignore[arg-type]
    return raised.value.index, raised.value.reason


class TreeConformance:
    async def test_a_node_is_read_as_it_was_created_and_set(self, tree: Tree) -> None:
        [created] = await tree.commit([Create("/a", b"one")])
        node = await tree.get("/a")
        assert node is not None
        assert (node.data, node.stat) == (b"one", created.stat)
        assert created.path == "/a"
        [changed] = await tree.commit([SetData("/a", b"two", version=0)])
        node = await tree.get("/a")
        assert node is not None
        assert node.stat == changed.stat
        assert (node.data, node.stat.version, node.stat.czxid) == (b"two", 1, created.stat.czxid)
        assert await tree.commit([Delete("/a", version=1)]) == [("/a", None)]
        assert await tree.get("/a") is None

    async def test_empty_data_and_an_empty_commit(self, tree: Tree) -> None:
        assert await tree.commit([]) == []
        await tree.commit([Create("/empty")])
        node = await tree.get("/empty")
        assert node is not None
        assert node.data == b""

    async def test_what_is_not_there(self, tree: Tree) -> None:
        assert await tree.get("/none") is None
        assert await tree.children("/none") is None
        assert await tree.children("/") is not None
        assert await refusal(tree, SetData("/none", b"")) == (0, Conflict.NO_NODE)
        assert await refusal(tree, Delete("/none")) == (0, Conflict.NO_NODE)
        assert await refusal(tree, Check("/none", -1)) == (0, Conflict.NO_NODE)
        assert await refusal(tree, Create("/none/child")) == (0, Conflict.NO_NODE)

    async def test_refusals_name_operation_and_reason(self, tree: Tree) -> None:
        await tree.commit([Create("/a"), Create("/a/b"), Create("/a/e", ephemeral=True)])
        assert await refusal(tree, Check("/a", 0), Create("/a/b")) == (1, Conflict.NODE_EXISTS)
        assert await refusal(tree, SetData("/a", b"", 1)) == (0, Conflict.BAD_VERSION)
        assert await refusal(tree, Delete("/a/b"), Delete("/a", 7)) == (1, Conflict.BAD_VERSION)
        assert await refusal(tree, Delete("/a")) == (0, Conflict.NOT_EMPTY)
        assert await refusal(tree, Create("/a/e/f")) == (0, Conflict.NO_CHILDREN_FOR_EPHEMERALS)

    async def test_a_refused_commit_leaves_no_trace(self, tree: Tree) -> None:
        await tree.commit([Create("/a", b"kept"), Create("/a/gone")])
        ops = [SetData("/a", b"lost"), Delete("/a/gone"), Create("/a/new"), Check("/a", 0)]
        assert await refusal(tree, *ops) == (3, Conflict.BAD_VERSION)
        node = await tree.get("/a")
        assert node is not None
        assert (node.data, node.stat.version) == (b"kept", 0)
        assert await tree.children("/a") == ["gone"]

    async def test_operations_see_those_before_them_in_their_commit(self, tree: Tree) -> None:
        results = await tree.commit(
            [
                Create("/a"),
                Create("/a/b", b"1"),
                SetData("/a/b", b"2", version=0),
                Check("/a/b", 1),
                Delete("/a/b", version=1),
                Create("/a/b", b"3"),
            ]
        )
        assert results[3] == ("/a/b", None)
        node = await tree.get("/a/b")
        assert node is not None
        assert (node.data, node.stat) == (b"3", results[5].stat)
        assert results[0].stat is not None
        assert node.stat.czxid == results[0].stat.czxid, "one commit is one transaction"

    async def test_a_later_creation_has_a_larger_czxid(self, tree: Tree) -> None:
        [first] = await tree.commit([Create("/a")])
        await tree.commit([Delete("/a")])
        [second] = await tree.commit([Create("/a")])
        assert first.stat is not None
        assert second.stat is not None
        assert second.stat.czxid > first.stat.czxid > 0
        assert second.stat.version == 0

    async def test_ephemeral_nodes_name_their_session(self, tree: Tree) -> None:
        await tree.commit([Create("/e", b"x", ephemeral=True), Create("/p")])
        mine, plain = await tree.get_many(["/e", "/p"])
        assert mine is not None
        assert plain is not None
        assert (mine.stat.ephemeral, mine.stat.owner) == (True, tree.session_id)
        assert (plain.stat.ephemeral, plain.stat.owner) == (False, 0)

    async def test_sequential_names_grow(self, tree: Tree) -> None:
        await tree.commit([Create("/s")])
        [first] = await tree.commit([Create("/s/isr_change_", b"1", sequential=True)])
        await tree.commit([Delete(first.path)])
        both = await tree.commit(
            [Create("/s/isr_change_", b"2", sequential=True), Create("/s/isr_change_", sequential=True)]
        )
        names = [first.path, both[0].path, both[1].path]
        assert names == sorted(set(names))
        assert all(name.startswith("/s/isr_change_") and len(name) == 24 for name in names)
        assert await tree.children("/s") == [name.removeprefix("/s/") for name in names[1:]]

    async def test_batches_are_atomic_each_on_its_own(self, tree: Tree) -> None:
        first, second, third = await tree.commit_many(
            [
                [Create("/a"), Create("/a/b")],
                [Create("/a/c"), Create("/a/b")],
                [SetData("/a", b"still", version=0)],
            ]
        )
        assert isinstance(first, list)
        assert isinstance(second, TreeConflict)
        assert (second.index, second.reason) == (1, Conflict.NODE_EXISTS)
        assert isinstance(third, list)
        assert await tree.children("/a") == ["b"]

    async def test_many_reads_keep_their_order(self, tree: Tree) -> None:
        await tree.commit([Create("/m")])
        await tree.commit([Create(f"/m/{number}", str(number).encode()) for number in range(1200)])
        nodes = await tree.get_many([f"/m/{number}" for number in range(1201)])
        assert [node and node.data for node in nodes] == [
            *(str(number).encode() for number in range(1200)),
            None,
        ]
        assert await tree.children_many(["/m/7", "/m/none", "/m"]) == [
            [],
            None,
            sorted(map(str, range(1200))),
        ]

    async def test_a_data_watch_tells_creation_change_and_deletion_again_and_again(self, tree: Tree) -> None:
        calls = 0
        seen: list[bytes | None] = []

        def called() -> None:
            nonlocal calls
            calls += 1

        end = tree.watch_data("/w", called)
        for op, expected in (
            (Create("/w", b"1"), b"1"),
            (SetData("/w", b"2"), b"2"),
            (SetData("/w", b"3"), b"3"),
            (Delete("/w"), None),
            (Create("/w", b"4"), b"4"),
        ):
            before = calls
            await tree.commit([op])
            await eventually(lambda before=before: calls > before)  # type: ignore[misc]
            node = await tree.get("/w")
            seen.append(node.data if node else None)
            assert seen[-1] == expected
        end()
        await tree.commit([SetData("/w", b"5")])
        await tree.commit([SetData("/w", b"6")])
        await asyncio.sleep(0.05)
        ended = calls
        await tree.commit([SetData("/w", b"7")])
        await asyncio.sleep(0.05)
        assert calls == ended

    async def test_a_child_watch_tells_children_and_the_node_itself(self, tree: Tree) -> None:
        calls = 0

        def called() -> None:
            nonlocal calls
            calls += 1

        tree.watch_children("/w", called)
        for op in (
            Create("/w"),
            Create("/w/a"),
            Create("/w/b"),
            Delete("/w/a"),
            Delete("/w/b"),
            Delete("/w"),
            Create("/w"),
            Create("/w/c"),
        ):
            before = calls
            await tree.commit([op])
            await eventually(lambda before=before: calls > before)  # type: ignore[misc]
        assert await tree.children("/w") == ["c"]

    async def test_a_reader_that_reads_on_each_call_ends_with_the_last_value(self, tree: Tree) -> None:
        await tree.commit([Create("/w", b"0")])
        wake = asyncio.Event()
        tree.watch_data("/w", wake.set)
        last = b""

        async def follow() -> None:
            nonlocal last
            while last != b"300":
                await wake.wait()
                wake.clear()
                node = await tree.get("/w")
                assert node is not None
                last = node.data

        reader = asyncio.create_task(follow())
        await tree.commit_many([[SetData("/w", str(number).encode())] for number in range(1, 301)])
        await asyncio.wait_for(reader, 10)

    async def test_a_failing_callback_disturbs_no_other(self, tree: Tree) -> None:
        def fail() -> None:
            raise RuntimeError("on purpose")

        told = asyncio.Event()
        tree.watch_data("/w", fail)
        tree.watch_data("/w", told.set)
        await tree.commit([Create("/w")])
        await asyncio.wait_for(told.wait(), 10)

    async def test_writes_fenced_by_a_version_have_one_winner(self, tree: Tree) -> None:
        await tree.commit([Create("/controller_epoch", b"0")])
        outcomes = await asyncio.gather(
            *(
                tree.commit([SetData("/controller_epoch", str(number).encode(), version=0)])
                for number in range(8)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, TreeConflict) for outcome in outcomes) == 7
