"""A master's part in the election, over a tree in a file: terms, the policy, an office taken away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contracts.masters import MASTER_EPOCH_PATH, MASTER_PATH, POLICY_PATH, decode_registration
from contracts.quota import Allocation, CpuAllocation, ReportAnswer, TrafficReport
from contracts.tree import Delete
from master.journal import Journal
from master.node import MasterNode, NotElectedError
from master.settings import MasterSettings
from runtime.tree.local import LocalTree
from tests.memory_tree import MemoryEnsemble
from tests.unit.master.reports import ID, a_report, a_spec, traffic
from traffic.point import TrafficPoint

TERM = 2**32


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)


def is_serving(node: MasterNode) -> bool:
    try:
        return node.service is not None
    except NotElectedError:
        return False


@asynccontextmanager
async def running(path: Path, journal: Journal, policy: str = "seed") -> AsyncIterator[MasterNode]:
    node = MasterNode(
        lambda: {ID: a_spec()},
        journal,
        MasterSettings(policy=policy),
        url="http://here",
        tree=LocalTree(path / "tree.db"),
    )
    task = asyncio.create_task(node.run())
    await until(lambda: is_serving(node) or task.done())
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.wait({task})


def granted(node: MasterNode) -> int:
    """The epoch of a lease it grants now."""
    answer = node.service.receive(a_report(1, traffic(1), boot=str(id(object()))))
    return answer.allocations[0].lease_epoch


async def test_each_election_is_another_term(tmp_path: Path) -> None:
    epochs = []
    for _ in range(2):
        async with running(tmp_path, Journal("sqlite://")) as node:
            assert node.elected_url == "http://here"
            epochs.append(granted(node))
    assert TERM < epochs[0] < 2 * TERM < epochs[1], "also for a master without the journal of the last"


async def test_the_term_is_beyond_those_of_a_journal_from_before_there_was_an_election(
    tmp_path: Path,
) -> None:
    journal = Journal("sqlite://")
    journal.keep_term(57)
    async with running(tmp_path, journal) as node:
        assert granted(node) > 58 * TERM
    assert journal.last_term() == 58
    async with running(tmp_path, Journal("sqlite://")) as node:
        assert granted(node) > 59 * TERM, "the tree has learned of it"


async def test_the_policy_is_kept_for_masters_to_come(tmp_path: Path) -> None:
    async with running(tmp_path, Journal("sqlite://")) as node:
        assert node.service.policy == "seed"
        with pytest.raises(ValueError, match="not a policy"):
            await node.set_policy("best")
        await node.set_policy("capped")
        await node.set_policy("fair")
    async with running(tmp_path, Journal("sqlite://")) as node:
        assert node.service.policy == "fair"


async def test_an_office_taken_away_is_not_exercised_and_taken_again(tmp_path: Path) -> None:
    async with running(tmp_path, Journal("sqlite://")) as node:
        tree = node._tree
        assert tree is not None
        before = granted(node)
        registered = await tree.get(MASTER_PATH)
        assert registered is not None
        registration = decode_registration(registered.data)
        assert registration is not None and registration.url == "http://here"
        await tree.commit([Delete(MASTER_PATH)])
        await until(lambda: is_serving(node) and granted(node) > before + TERM // 2)
        epoch = await tree.get(MASTER_EPOCH_PATH)
        assert epoch is not None and int(epoch.data) == 2
        assert await tree.get(POLICY_PATH) is None


async def test_without_a_tree_the_journal_counts_terms() -> None:
    journal = Journal("sqlite://")
    for term in (1, 2):
        node = MasterNode(lambda: {ID: a_spec()}, journal, MasterSettings(), url="http://here", tree=None)
        task = asyncio.create_task(node.run())
        await until(lambda: is_serving(node))  # noqa: B023 - called at once
        assert granted(node) // TERM == term
        task.cancel()
        await asyncio.wait({task})
        with pytest.raises(NotElectedError, match="none is elected now"):
            _ = node.service


def a_point_with_leases_of(term: int) -> TrafficPoint:
    """A broker that was started anew, and remembers the leases of a master that nobody else does."""
    point = TrafficPoint(point="broker-1", node_id=1, cluster_id="c", boot_id="b", now_ms=0)
    point.set_spec(a_spec(), 0)
    point.set_led(ID, 1, 0)
    point.charge_cpu(ID, 1, 0)
    lease = Allocation(
        instance_id=ID,
        lease_epoch=term * TERM + 5,
        lease_ms=1,
        produce_rate_bytes_per_s=1,
        consume_rate_bytes_per_s=1,
        partitions_total=1,
        blocked=False,
        stored_bytes=0,
        stored_left_bytes=1,
    )
    cpu = CpuAllocation(instance_id=ID, lease_epoch=(term + 1) * TERM, lease_ms=1, rate_us_per_s=100)
    point.apply(ReportAnswer(allocations=(lease,), cpu=(cpu,)), 0)
    return point


def on_lease(report: TrafficReport) -> list[bool]:
    return [*(each.on_lease for each in report.instances), *(each.on_lease for each in report.cpu)]


async def heard(node: MasterNode, point: TrafficPoint) -> None:
    """Reports go on until the point has leases of both kinds."""
    async with asyncio.timeout(10):
        for now_ms in range(1_000, 100_000, 10):
            report = point.report(now_ms, now_ms)
            if is_serving(node):
                point.apply(node.service.receive(report), now_ms)
            if on_lease(report) == [True, True]:
                return
            await asyncio.sleep(0.01)
            point.charge_produce(ID, 1, now_ms)
            point.charge_cpu(ID, 1, now_ms)


async def test_a_lost_journal_alone_costs_no_point_its_leases() -> None:
    journal = Journal("sqlite://")
    node = MasterNode(lambda: {ID: a_spec()}, journal, MasterSettings(), url="http://here", tree=None)
    task = asyncio.create_task(node.run())
    await until(lambda: is_serving(node))
    assert journal.last_term() == 1
    await heard(node, a_point_with_leases_of(57))
    assert granted(node) // TERM == journal.last_term() == 59
    task.cancel()
    await asyncio.wait({task})


async def test_a_lost_journal_and_a_lost_tree_cost_no_point_its_leases(tmp_path: Path) -> None:
    async with running(tmp_path, Journal("sqlite://")) as node:
        assert granted(node) // TERM == 1
        for term in (1, 57, 77):  # as points are heard one after the other
            await heard(node, a_point_with_leases_of(term))
            assert granted(node) // TERM == term + 2
    async with running(tmp_path, Journal("sqlite://")) as node:
        assert granted(node) // TERM == 80, "the tree has learned of it"


async def test_who_was_voted_out_unawares_ends_and_raises_nobodys_term() -> None:
    ensemble = MemoryEnsemble()
    trees = [ensemble.session(), ensemble.session()]
    nodes = [
        MasterNode(lambda: {ID: a_spec()}, Journal("sqlite://"), MasterSettings(), url=url, tree=tree)
        for url, tree in zip(("http://one", "http://two"), trees, strict=True)
    ]
    tasks = [asyncio.create_task(nodes[0].run())]
    await until(lambda: is_serving(nodes[0]))
    tasks.append(asyncio.create_task(nodes[1].run()))
    trees[0].suspend()
    ensemble.end(trees[0].session_id)
    await until(lambda: is_serving(nodes[1]))
    assert is_serving(nodes[0]), "it knows nothing of its successor"
    point = a_point_with_leases_of(1)  # of request time of term 2
    for now_ms in (1, 2):
        point.apply(nodes[0].service.receive(point.report(now_ms, now_ms)), now_ms)
    await until(lambda: not is_serving(nodes[0]))
    assert granted(nodes[1]) // TERM == 2
    epoch = await trees[1].get(MASTER_EPOCH_PATH)
    assert epoch is not None and epoch.data == b"2"
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"url":1}', b"\xff"])
def test_a_registration_that_is_none_is_not_understood(data: bytes) -> None:
    assert decode_registration(data) is None
