"""Producer ids that a move sets aside at an Apache Kafka."""

import asyncio
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from tenants.backend import producer_ids
from tenants.backend.copy_links import Links
from tenants.backend.copy_targets import CannotMove
from tenants.backend.producer_ids import DRAWN_MAX, burn_producer_ids
from tenants.rules.errors import Unavailable

CALL_MS = 10


class Broker:
    """Gives one id after the other, each of which takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
        self._now_ms = 0
        self._ids: Iterator[int] = count(first)
        self.cluster = SimpleNamespace(addresses={1: "here"})
        monkeypatch.setattr(producer_ids, "monotonic_ms", lambda: self._now_ms)

    async def call(self, node_id: int, request: Any) -> Any:
        """The next one."""
        assert node_id == 1 and request.transactional_id is None
        self._now_ms += CALL_MS
        return SimpleNamespace(error_code=ErrorCode.none, producer_id=next(self._ids))


def burn(broker: Broker, up_to: int) -> int:
    return asyncio.run(burn_producer_ids(cast(Links, broker), up_to))


def test_a_step_says_how_far_it_is_and_the_next_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, first=1)
    with pytest.raises(
        Unavailable, match=r"up to 700 are being set aside at the target, now at 500 \(broker 1\)"
    ):
        burn(broker, 700)
    assert burn(broker, 700) == 700
    assert asyncio.run(broker.call(1, SimpleNamespace(transactional_id=None))).producer_id == 702


def test_too_many_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotMove, match="more than 50,000"):
        burn(Broker(monkeypatch, first=1), DRAWN_MAX + 2)
