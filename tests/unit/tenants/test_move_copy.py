"""The end of a copy: what has to be there, and in which order it is asked for."""

import uuid
from typing import Any, cast

import pytest

from tenants import move_copy
from tenants.backend import topics
from tenants.backend.copy_groups import Standing
from tenants.backend.copy_links import Layout, Links
from tenants.move_copy import Copy, Round
from tenants.rules.model import Instance
from tenants.rules.moves import Topic

KEY = ("orders", 0)


class Ending(Copy):
    """A copy whose clusters are lists of what they say next."""

    def __init__(self, ends: list[tuple[int, int]], standing: list[list[Standing]]) -> None:
        self.doing = ""
        self.seen: list[str] = []
        self.ends, self.standing = ends, standing
        self.carried: list[Standing] = []
        self._source = cast(Links, type("Source", (), {"cluster": None}))
        self.instance = cast(Instance, type("Shop", (), {"id": "iabcdefghijk"}))
        self._at = Layout({"orders": Topic(uuid.UUID(int=1), 1)}, {KEY: 1})
        self._groups = cast(Any, type("Groups", (), {"carry": self._nothing}))

    async def offsets(self, *_: object, with_uncommitted: bool = False) -> dict[tuple[str, int], int]:
        if with_uncommitted:
            return {KEY: self.ends[0][0]}
        self.seen.append("committed")
        return {KEY: self.ends.pop(0)[1]}

    async def transactions(self, _: object) -> list[Standing]:
        self.seen.append("transactions")
        return self.standing.pop(0)

    async def round(self, *, is_paced: bool = True) -> Round:
        assert not is_paced
        self.seen.append("round")
        return Round(0, True)

    async def _nothing(self) -> None:
        pass

    _align_topics = _delete_what_is_deleted = _nothing

    async def _carry_transactions(self, standing: list[Standing]) -> None:
        self.carried = standing


async def finished(copy: Ending, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(topics, "offsets", copy.offsets)
    monkeypatch.setattr(move_copy, "transactions", copy.transactions)
    await copy.finish()
    return copy.seen


async def test_what_followers_do_not_have_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader has acknowledged it with acks=1, and nobody reads it before they have it."""
    copy = Ending([(20, 12), (20, 19), (20, 20)], [[], []])
    assert await finished(copy, monkeypatch) == [*["committed"] * 3, "transactions", "round", "transactions"]


async def test_a_transaction_that_ends_meanwhile_has_its_markers_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has been decided by time, or by who asked just before, is decided at the target, too."""
    opened = Standing("t", 7, 0, 60_000, "Ongoing", (KEY,), False)
    ended = opened._replace(state="CompleteAbort", partitions=())
    copy = Ending([(20, 20)], [[opened], [ended], [ended]])
    told = await finished(copy, monkeypatch)
    assert told == ["committed", "transactions", "round", "transactions", "round", "transactions"]
    assert copy.carried == [ended]
