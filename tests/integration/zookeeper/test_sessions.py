"""Sessions at a real ZooKeeper: loss, reconnect, expiry, restarts of the server, lost answers."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from contracts.tree import Check, Create, SessionState, SetData, TreeConflict, TreeUnavailable
from runtime.tree.requests import MULTI_BYTES_MAX
from runtime.tree.zookeeper import ZooKeeperTree
from tests.integration.zookeeper.conftest import SESSION_TIMEOUT_MS
from tests.integration.zookeeper.proxy import Proxy, proxied
from tests.integration.zookeeper.server import ZooKeeperServer, running_zookeeper
from tests.tree_conformance import eventually

_STARTS: Final = 4
"""How often a tree is started on a machine that stands still, as the processes that have one do."""
CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


@asynccontextmanager
async def session(
    hosts: str, timeout_ms: int = SESSION_TIMEOUT_MS
) -> AsyncIterator[tuple[ZooKeeperTree, list[SessionState]]]:
    """A tree and the states of its session."""
    tree = ZooKeeperTree(hosts, timeout_ms, None)
    states: list[SessionState] = []
    tree.on_session(states.append)
    for left in reversed(range(_STARTS)):
        try:
            await tree.start()
            break
        except TreeUnavailable:
            if left == 0:
                raise
    try:
        yield tree, states
    finally:
        await tree.aclose()


async def test_a_start_that_found_nobody_is_tried_again(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a master does that is started before its ZooKeeper."""
    monkeypatch.setattr("runtime.tree.zookeeper._START_TIMEOUT_S", 0.5)
    async with proxied(zookeeper.port) as proxy:
        proxy.refuse()
        tree = ZooKeeperTree(f"127.0.0.1:{proxy.port}", SESSION_TIMEOUT_MS, None)
        for _ in range(2):
            with pytest.raises(TreeUnavailable, match="no ZooKeeper answers"):
                await tree.start()
        monkeypatch.setattr("runtime.tree.zookeeper._START_TIMEOUT_S", 30)
        await proxy.start()
        await tree.start()
        assert tree.session_id
        await tree.aclose()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_start_that_nobody_answered_leaves_nothing_to_the_next(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.tree.zookeeper._START_TIMEOUT_S", 0.5)
    monkeypatch.setattr("runtime.tree.zookeeper._STOP_TIMEOUT_S", 0.2)
    async with proxied(zookeeper.port) as proxy:
        proxy.hold()
        tree = ZooKeeperTree(f"127.0.0.1:{proxy.port}", 10 * SESSION_TIMEOUT_MS, None)
        states: list[SessionState] = []
        tree.on_session(states.append)
        with pytest.raises(TreeUnavailable, match="no ZooKeeper answers"):
            await tree.start()
        (ending,) = [thread for thread in threading.enumerate() if thread.name == "tree-stop"]
        monkeypatch.setattr("runtime.tree.zookeeper._START_TIMEOUT_S", 60)
        proxy.release()
        await tree.start()
        await asyncio.to_thread(ending.join, 60)
        assert not ending.is_alive()
        assert states == [CONNECTED], "the first start's session came and went unnoticed"
        await tree.commit([Create("/still", ephemeral=True)])
        await tree.aclose()


@asynccontextmanager
async def behind_a_proxy(
    zookeeper: ZooKeeperServer, timeout_ms: int = SESSION_TIMEOUT_MS
) -> AsyncIterator[tuple[Proxy, ZooKeeperTree, list[SessionState]]]:
    chroot = "/" + zookeeper.new_chroot().partition("/")[2]
    async with (
        proxied(zookeeper.port) as proxy,
        session(f"127.0.0.1:{proxy.port}{chroot}", timeout_ms) as (tree, states),
    ):
        yield proxy, tree, states


def expire(zookeeper: ZooKeeperServer, tree: ZooKeeperTree) -> None:
    session_id, password = tree._client.client_id
    zookeeper.expire(session_id, password)


async def test_a_cut_connection_is_taken_up_again_in_the_same_session(zookeeper: ZooKeeperServer) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        await tree.commit([Create("/e", ephemeral=True)])
        session_id = tree.session_id
        told: list[str] = []
        tree.watch_data("/e", lambda: told.append("e"))
        proxy.cut()
        await eventually(lambda: states == [CONNECTED, SUSPENDED, CONNECTED])
        assert tree.session_id == session_id
        assert told == ["e"], "each watch is called after a reconnect"
        assert await tree.get("/e") is not None
        await tree.commit([SetData("/e", b"x")])
        await eventually(lambda: len(told) == 2)


async def test_without_a_connection_calls_fail_at_once(zookeeper: ZooKeeperServer) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        proxy.refuse()
        await eventually(lambda: states[-1] is SUSPENDED)
        for call in (tree.get("/"), tree.children("/"), tree.commit([Create("/x")])):
            with pytest.raises(TreeUnavailable):
                await asyncio.wait_for(call, SESSION_TIMEOUT_MS / 1000)
        await proxy.start()
        await eventually(lambda: states[-1] is CONNECTED)
        assert await tree.get("/x") is None


async def test_a_write_whose_answer_is_lost_says_that_it_does_not_know(zookeeper: ZooKeeperServer) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        proxy.hold()
        write = asyncio.create_task(tree.commit([Create("/x")]))
        await asyncio.sleep(0.05)
        proxy.cut()
        with pytest.raises(TreeUnavailable):
            await write
        proxy.release()
        await eventually(lambda: states == [CONNECTED, SUSPENDED, CONNECTED])
        await tree.commit([Create("/y")])


async def test_a_chroot_whose_creation_was_lost_is_created_after_the_reconnect(
    zookeeper: ZooKeeperServer,
) -> None:
    chroot = "/" + zookeeper.new_chroot().partition("/")[2]
    async with proxied(zookeeper.port) as proxy:
        tree = ZooKeeperTree(f"127.0.0.1:{proxy.port}{chroot}", SESSION_TIMEOUT_MS, None)
        states: list[SessionState] = []

        def hold_the_first(state: SessionState) -> None:
            states.append(state)
            if len(states) == 1:
                proxy.hold()

        tree.on_session(hold_the_first)
        await tree.start()
        try:
            await asyncio.sleep(0.05)
            proxy.cut()
            proxy.release()
            await eventually(lambda: states == [CONNECTED, SUSPENDED, CONNECTED])
            await tree.commit([Create("/x")])
        finally:
            await tree.aclose()


async def test_a_server_that_falls_silent_is_noticed_within_the_session(zookeeper: ZooKeeperServer) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, _tree, states):
        proxy.hold()
        await eventually(lambda: SUSPENDED in states)
        proxy.release()
        await eventually(lambda: states[-1] is CONNECTED)


async def test_a_server_that_falls_silent_is_noticed_also_while_requests_go_on(
    zookeeper: ZooKeeperServer,
) -> None:
    """Each request counts as a sign of life for kazoo, which pinged after the pipeline was full of 128."""
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        proxy.hold()
        asked = []
        for _ in range(110):  # for 11 s, of a session of 2
            asked.append(asyncio.create_task(tree.get("/")))
            await asyncio.sleep(0.1)
            if SUSPENDED in states:
                break
        assert SUSPENDED in states
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, TreeUnavailable) for each in answers), "nobody waits any longer"
        proxy.release()
        await eventually(lambda: states[-1] is CONNECTED)


async def test_expiry_is_told_and_a_new_session_follows(zookeeper: ZooKeeperServer, hosts: str) -> None:
    async with session(hosts) as (tree, states), session(hosts) as (other, _):
        await tree.commit([Create("/e", ephemeral=True), Create("/p")])
        seen: list[str] = []
        other.watch_data("/e", lambda: seen.append("gone"))
        mine: list[str] = []
        tree.watch_data("/p", lambda: mine.append("p"))
        first = tree.session_id
        await asyncio.to_thread(expire, zookeeper, tree)
        await eventually(lambda: EXPIRED in states and states[-1] is CONNECTED)
        assert [state for state in states if state is not SUSPENDED] == [CONNECTED, EXPIRED, CONNECTED]
        assert tree.session_id not in (0, first)
        assert await tree.get("/e") is None
        await eventually(lambda: seen == ["gone"] and mine == ["p"])
        await other.commit([SetData("/p", b"x")])
        await eventually(lambda: mine == ["p", "p"])


async def test_a_process_that_slept_too_long_learns_that_its_session_ended(
    zookeeper: ZooKeeperServer,
) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        await tree.commit([Create("/controller_epoch"), Create("/controller", ephemeral=True)])
        proxy.hold()  # as a SIGSTOP: connected, and silent for longer than the session lives
        with zookeeper.client() as outside:
            chroot = tree._chroot
            await eventually(lambda: outside.exists(f"{chroot}/controller") is None)
            outside.set(f"{chroot}/controller_epoch", b"2")
        proxy.release()
        await eventually(lambda: EXPIRED in states and states[-1] is CONNECTED)
        with pytest.raises(TreeConflict):
            await tree.commit([Check("/controller_epoch", 0), Create("/late")])
        assert await tree.get("/late") is None


async def test_a_write_of_an_ended_session_is_not_sent_in_the_next(
    zookeeper: ZooKeeperServer, hosts: str
) -> None:
    async with session(hosts) as (tree, states):
        request = tree._multi([Create("/late", ephemeral=True)])
        await asyncio.to_thread(expire, zookeeper, tree)
        await eventually(lambda: EXPIRED in states and states[-1] is CONNECTED)
        with pytest.raises(TreeUnavailable):
            await tree._gather([tree._submit(request)])
        assert await tree.get("/late") is None


async def test_a_server_killed_and_started_again_keeps_sessions_and_data(tmp_path: Path) -> None:
    with running_zookeeper(tmp_path) as server:
        async with session(server.new_chroot(), 40_000) as (tree, states):
            [made] = await tree.commit([Create("/e", b"x", ephemeral=True)])
            told: list[str] = []
            tree.watch_data("/e", lambda: told.append("e"))
            await asyncio.to_thread(server.restart)
            await eventually(lambda: states[-1] is CONNECTED and len(states) > 1, 20)
            assert EXPIRED not in states
            node = await tree.get("/e")
            assert node is not None
            assert node.stat == made.stat
            assert told
        with server.client() as outside:
            [chroot] = [name for name in outside.get_children("/") if name.startswith("test-")]
            assert outside.get_children(f"/{chroot}") == [], "closing ended the session at once"


async def test_closing_does_not_wait_for_a_server_that_is_paused(tmp_path: Path) -> None:
    with running_zookeeper(tmp_path) as server:
        tree = ZooKeeperTree(server.hosts, SESSION_TIMEOUT_MS, None)
        await tree.start()
        server.pause()
        await asyncio.wait_for(tree.aclose(), 15)
        server.resume()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_bytes_that_no_server_sends_cost_the_connection_and_no_more(
    zookeeper: ZooKeeperServer,
) -> None:
    async with behind_a_proxy(zookeeper) as (proxy, tree, states):
        proxy.send_to_client(b"\x00\x00\x00\x10" + b"\x00\x00\x00\x63" + b"\xff" * 12)
        await eventually(lambda: len(states) > 1)
        await eventually(lambda: states[-1] is CONNECTED)
        await tree.commit([Create("/still")])


async def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.tree.zookeeper._START_TIMEOUT_S", 0.3)
    with pytest.raises(TreeUnavailable, match="no ZooKeeper answers"):
        await ZooKeeperTree("127.0.0.1:1/x", SESSION_TIMEOUT_MS, None).start()


async def test_a_commit_may_be_large_but_not_too_large(tree: ZooKeeperTree) -> None:
    await tree.commit([Create("/big")])
    await tree.commit([Create(f"/big/{number}", b"x" * 9_000) for number in range(100)])
    nodes = await tree.get_many([f"/big/{number}" for number in range(100)])
    assert all(node is not None and len(node.data) == 9_000 for node in nodes)
    with pytest.raises(ValueError, match="split it"):
        await tree.commit([Create("/big/more", b"x" * MULTI_BYTES_MAX)])
    await tree.commit([Create("/big/after")])


async def test_a_chroot_of_several_parts_is_made_and_kept_apart(zookeeper: ZooKeeperServer) -> None:
    hosts = zookeeper.new_chroot() + "/deep/er"
    async with session(hosts) as (tree, _), session(zookeeper.hosts) as (root, _states):
        await tree.commit([Create("/a", sequential=True)])
        inside = "/" + hosts.partition("/")[2]
        assert await tree.children("/") == ["a0000000000"] == await root.children(inside)


async def test_thousands_of_writes_wait_for_a_silent_server_without_blocking_the_loop(
    zookeeper: ZooKeeperServer,
) -> None:
    async with behind_a_proxy(zookeeper, 10 * SESSION_TIMEOUT_MS) as (proxy, tree, states):
        await tree.commit([Create("/a")])
        proxy.hold()
        writes = [asyncio.create_task(tree.commit([SetData("/a", b"x")])) for _ in range(2_000)]
        await asyncio.sleep(0.1)
        assert not any(write.done() for write in writes)
        proxy.release()
        versions = [result.stat.version for [result] in await asyncio.gather(*writes) if result.stat]
        assert versions == list(range(1, 2_001)), "in the order of the calls"
        assert states == [CONNECTED]


async def test_of_several_hosts_any_that_answers_is_used(zookeeper: ZooKeeperServer) -> None:
    chroot = zookeeper.new_chroot().partition("/")[2]
    async with proxied(zookeeper.port) as one, proxied(zookeeper.port) as two:
        hosts = f"127.0.0.1:1,127.0.0.1:{one.port},127.0.0.1:{two.port}/{chroot}"
        async with session(hosts) as (tree, states):
            await tree.commit([Create("/e", ephemeral=True)])
            for proxy in (one, two):
                proxy.refuse()
                await eventually(lambda: states[-1] is CONNECTED)
                assert await until_answered(tree, "/e"), "the session moved to the other host"
                await proxy.start()
            assert EXPIRED not in states


async def until_answered(tree: ZooKeeperTree, path: str) -> bool:
    """Whether there is a node, once a connection is there to ask on."""
    while True:
        try:
            return await tree.get(path) is not None
        except TreeUnavailable:
            await asyncio.sleep(0.02)
