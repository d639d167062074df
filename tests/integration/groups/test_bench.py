"""`portico bench groups`, small: both protocols settle, and what they cost has figures."""

import pytest

from ctl.bench import groups as bench
from ctl.bench.measure import Spread


def test_both_protocols_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in {"_REBALANCED": 4, "_PARTITIONS": 8, "_BEAT_S": 0.2, "_WATCHED_S": 0.5}.items():
        monkeypatch.setattr(bench, name, few)
    rebalances, settled = bench.run(1, 5, against_apache=False, say=lambda _: None).values()
    assert isinstance(rebalances, dict) and isinstance(settled, dict)
    for found in rebalances.values():
        assert set(found) == {"new", "classic"}
        assert all(isinstance(spread, Spread) and spread.low > 0 for spread in found.values())
    for found in settled.values():
        assert found["until all had theirs, s"] > 0
