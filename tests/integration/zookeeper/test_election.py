"""Election over a real ZooKeeper: a leader killed with -9 is followed when its session ends."""

import asyncio
import subprocess
import sys
import time

from runtime.tree.election import Election, Office
from runtime.tree.zookeeper import ZooKeeperTree
from tests.integration.stack import ROOT
from tests.integration.zookeeper.conftest import SESSION_TIMEOUT_MS
from tests.tree_conformance import eventually

_LONG_SESSION_MS = 30_000

CANDIDATE = """
import asyncio, sys
from runtime.tree.election import Election
from runtime.tree.zookeeper import ZooKeeperTree

async def main():
    tree = ZooKeeperTree(sys.argv[1], int(sys.argv[2]), None)
    await tree.start()
    Election(tree, "/controller", "/controller_epoch", data=lambda: b"other",
             elected=lambda office: print("elected", office.epoch, flush=True), lost=lambda: None).start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_leader_is_followed_when_its_session_ends(tree: ZooKeeperTree, hosts: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CANDIDATE, hosts, str(SESSION_TIMEOUT_MS)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = b""
        while not line.startswith(b"elected"):
            line = await asyncio.wait_for(process.stdout.readline(), 20)
        assert line == b"elected 1\n"
        offices: list[Office] = []
        election = Election(
            tree,
            "/controller",
            "/controller_epoch",
            data=lambda: b"ours",
            elected=offices.append,
            lost=lambda: None,
        )
        election.start()
        await eventually(lambda: election.leader is not None and election.leader.data == b"other")
    finally:
        process.kill()
        await process.wait()
    started = time.monotonic()
    await eventually(lambda: offices == [Office(epoch=2, epoch_version=2)])
    assert time.monotonic() - started < SESSION_TIMEOUT_MS / 1000 + 10
    await election.aclose()


async def test_closing_hands_over_at_once(hosts: str) -> None:
    trees = [ZooKeeperTree(hosts, _LONG_SESSION_MS, None) for _ in range(2)]
    for each in trees:
        await each.start()
    elected: list[str] = []
    elections = [
        Election(
            at,
            "/controller",
            "/controller_epoch",
            data=name.encode,
            elected=lambda _office, name=name: elected.append(name),  # type: ignore[misc]
            lost=lambda: None,
        )
        for at, name in zip(trees, ("one", "two"), strict=True)
    ]
    elections[0].start()
    await eventually(lambda: elected == ["one"])
    elections[1].start()
    await eventually(lambda: elections[1].leader is not None)
    started = time.monotonic()
    await elections[0].aclose()
    await eventually(lambda: elected == ["one", "two"])
    assert time.monotonic() - started < _LONG_SESSION_MS / 1000 / 2
    await elections[1].aclose()
    for each in trees:
        await each.aclose()
