"""Leader election over trees whose sessions the test controls."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contracts.tree import Check, Node, SetData, TreeConflict, TreeUnavailable
from runtime.tree.election import Election, Office
from tests.memory_tree import MemoryEnsemble, MemoryTree
from tests.tree_conformance import eventually


class Candidate:
    """An election and what it told."""

    def __init__(self, tree: MemoryTree, name: str) -> None:
        self.tree = tree
        self.told: list[Office | str] = []
        self.leaders: list[bytes | None] = []
        self.election = Election(
            tree,
            "/controller",
            "/controller_epoch",
            data=name.encode,
            elected=self.told.append,
            lost=lambda: self.told.append("lost"),
            leader_changed=self._leader_changed,
        )

    def _leader_changed(self, node: Node | None) -> None:
        self.leaders.append(node.data if node else None)

    @property
    def leads(self) -> bool:
        return self.election.office is not None


@pytest.fixture
async def candidates() -> AsyncIterator[list[Candidate]]:
    ensemble = MemoryEnsemble()
    members = [Candidate(ensemble.session(), name) for name in ("one", "two", "three")]
    for member in members:
        await member.tree.start()
        member.election.start()
        await eventually(lambda: any(member.leads for member in members))
    yield members
    for member in members:
        await member.election.aclose()


async def test_one_is_elected_and_all_know_whom(candidates: list[Candidate]) -> None:
    one, two, three = candidates
    await eventually(lambda: all(member.leaders == [b"one"] for member in candidates))
    assert one.told == [Office(epoch=1, epoch_version=1)]
    assert two.told == three.told == []


async def test_expiry_ends_the_office_at_once_and_another_follows(candidates: list[Candidate]) -> None:
    one = candidates[0]
    one.tree.expire()
    assert one.told[-1] == "lost"
    await eventually(lambda: any(member.leads for member in candidates))
    [leader] = [member for member in candidates if member.leads]
    assert leader.election.office == Office(epoch=2, epoch_version=2)


async def test_one_that_expired_unawares_can_write_nothing(candidates: list[Candidate]) -> None:
    one, two, three = candidates
    office = one.election.office
    assert office is not None
    one.tree.suspend()
    one.tree.expire(noticed=False)
    await eventually(lambda: two.leads or three.leads)
    assert one.leads, "it cannot know"
    with pytest.raises(TreeUnavailable):
        await one.tree.commit([SetData("/controller_epoch", b"9")])
    one.tree.notice_expiry()
    assert not one.leads
    with pytest.raises(TreeConflict):
        await one.tree.commit([Check("/controller_epoch", office.epoch_version)])


async def test_a_lost_connection_that_comes_back_changes_nothing(candidates: list[Candidate]) -> None:
    one = candidates[0]
    one.tree.suspend()
    one.tree.resume()
    await eventually(lambda: all(member.leaders == [b"one"] for member in candidates))
    assert one.told == [Office(1, 1)]


async def test_resigning_hands_over_and_standing_again_waits_its_turn(candidates: list[Candidate]) -> None:
    one, two, three = candidates
    one.election.resign()
    await eventually(lambda: two.leads or three.leads)
    assert one.told[-1] == "lost"
    two.election.resign()
    three.election.resign()
    await eventually(lambda: one.election.leader is None)
    one.election.stand()
    await eventually(lambda: one.leads)
    assert one.election.office is not None
    assert one.election.office.epoch >= 3


async def test_closing_frees_the_office(candidates: list[Candidate]) -> None:
    one, two, three = candidates
    await one.election.aclose()
    assert one.told[-1] == "lost"
    await eventually(lambda: two.leads or three.leads)


async def test_a_claim_of_unknown_outcome_is_recognised_as_ours() -> None:
    ensemble = MemoryEnsemble()
    tree = AnswerLost(ensemble)
    candidate = Candidate(tree, "one")
    await tree.start()
    candidate.election.start()
    await eventually(lambda: candidate.leads)
    assert candidate.told == [Office(epoch=1, epoch_version=1)]
    await candidate.election.aclose()
    assert await tree.get("/controller") is None


class AnswerLost(MemoryTree):
    """A session whose first claim is done, but its answer never comes."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self._lose = True

    async def commit(self, ops):  # type: ignore[no-untyped-def]
        results = await super().commit(ops)
        if len(ops) == 2 and self._lose:
            self._lose = False
            raise TreeUnavailable("the answer is lost")
        return results


@pytest.mark.parametrize("ticks", range(6))
async def test_one_that_looks_again_ends_when_it_is_told_to(ticks: int) -> None:
    """Wake-up and end come as close together as may be: a broker stops as the controller does."""
    tree = MemoryEnsemble().session()
    candidate = Candidate(tree, "one")
    await tree.start()
    tree.suspend()
    candidate.election.start()
    for _ in range(10):
        await asyncio.sleep(0)
    candidate.election.stand()
    for _ in range(ticks):
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await candidate.election.aclose()
