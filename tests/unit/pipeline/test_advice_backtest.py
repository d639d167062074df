"""Days to full of histories whose end is known: how wrong they may be at most."""

import pytest

from pipeline.advice.backtest import Errors, backtest


@pytest.fixture(scope="module")
def errors() -> dict[str, Errors]:
    return {each.kind: each for each in backtest(60)}


@pytest.mark.parametrize(
    "kind", ["even growth", "growth by day and week", "two clean-ups by hand", "new tenant"]
)
def test_growth_is_told_to_within_a_tenth(errors: dict[str, Errors], kind: str) -> None:
    found = errors[kind]
    assert found.median is not None and found.median < 0.04
    assert found.p90 is not None and found.p90 < 0.1
    assert found.unsaid <= 1 and found.fill == found.histories == 60


@pytest.mark.parametrize("kind", ["retention's saw-tooth", "new tenant, retention of a week"])
def test_what_retention_keeps_level_is_not_said_to_fill(errors: dict[str, Errors], kind: str) -> None:
    found = errors[kind]
    assert found.never == 60 and found.false_alarms <= 2


def test_growth_below_a_saw_tooth_is_mostly_seen(errors: dict[str, Errors]) -> None:
    found = errors["saw-tooth of growing traffic"]
    assert found.median is not None and found.median < 0.3
    assert found.unsaid <= 12
