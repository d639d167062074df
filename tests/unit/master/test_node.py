"""A master's part in the election, over a tree in a file: terms, the policy, an office taken away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contracts.masters import MASTER_EPOCH_PATH, MASTER_PATH, POLICY_PATH, decode_registration
from contracts.tree import Delete
from master.journal import Journal
from master.node import MasterNode, NotElectedError
from master.settings import MasterSettings
from runtime.tree.local import LocalTree
from tests.unit.master.reports import ID, a_report, a_spec, traffic

TERM = 2**32


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
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


@pytest.mark.parametrize("data", [b"", b"[]", b'{"url":1}', b"\xff"])
def test_a_registration_that_is_none_is_not_understood(data: bytes) -> None:
    assert decode_registration(data) is None
