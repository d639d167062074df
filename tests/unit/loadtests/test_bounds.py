"""What a run is held to."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from loadtests.bounds import Baseline, BaselineFault, Better, Bound, Figure, judge, kept, parsed

TREE = Path(__file__).resolve().parents[3] / "loadtests" / "baselines"
OPTIONS: dict[str, Any] = {"seconds": 5}


def test_a_run_passes_when_every_bound_holds() -> None:
    bounds = {"lost": Bound(at_most=0), "share": Bound(at_least=0.99), "rate": Bound(0.5, 0.1)}
    verdict = judge(
        [Figure("lost", 0), Figure("share", 0.99), Figure("rate", 0.3), Figure("told", 9)],
        [Baseline("the tree", bounds)],
        OPTIONS,
    )
    assert verdict.passes
    assert [row.figure for row in verdict.rows] == ["lost", "share", "rate"]


@pytest.mark.parametrize("value", [1.51, math.nan, math.inf])
def test_one_bound_that_does_not_hold_fails_the_run(value: float) -> None:
    bounds = {"ratio": Bound(at_most=1.5), "lost": Bound(at_most=0)}
    verdict = judge([Figure("ratio", value), Figure("lost", 0)], [Baseline("the tree", bounds)], OPTIONS)
    assert not verdict.passes
    assert [row.holds for row in verdict.rows] == [False, True]


def test_what_was_not_measured_does_not_hold() -> None:
    verdict = judge([], [Baseline("the tree", {"ratio": Bound(at_most=1.5)})], OPTIONS)
    assert not verdict.passes


def test_a_run_that_is_held_to_nothing_has_not_passed() -> None:
    assert not judge([Figure("ratio", 1)], [], OPTIONS).passes
    assert not judge([Figure("ratio", 1)], [Baseline("empty", {})], OPTIONS).passes


def test_all_baselines_bind() -> None:
    loose, strict = Baseline("a", {"ms": Bound(at_most=10)}), Baseline("b", {"ms": Bound(at_most=5)})
    assert not judge([Figure("ms", 7)], [loose, strict], OPTIONS).passes


def test_a_baseline_of_other_options_is_not_compared_and_that_is_said() -> None:
    other = Baseline("this machine", {"ms": Bound(at_most=5)}, {"seconds": 60})
    tree = Baseline("the tree", {"ms": Bound(at_most=10)})
    verdict = judge([Figure("ms", 7)], [tree, other], OPTIONS)
    assert verdict.passes
    assert verdict.notes == ("this machine was measured with other options: not compared",)


def test_kept_figures_hold_the_run_that_made_them_and_fail_a_worse_one() -> None:
    figures = [
        Figure("ms", 10, Better.LOWER, tolerance=0.5),
        Figure("share", 1.0, Better.HIGHER, tolerance=0.1),
        Figure("lost", 0, Better.LOWER),
        Figure("told", 3),
        Figure("unknown", math.nan, Better.LOWER),
    ]
    baseline = parsed(json.loads(json.dumps(kept(figures, OPTIONS))), "this machine")
    assert set(baseline.bounds) == {"ms", "share", "lost"}
    assert judge(figures, [baseline], OPTIONS).passes
    for worse in (Figure("ms", 15.1), Figure("share", 0.89), Figure("lost", 1)):
        others = [figure for figure in figures if figure.name != worse.name]
        assert not judge([*others, worse], [baseline], OPTIONS).passes


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"bounds": 3},
        {"bounds": {"ms": {}}},
        {"bounds": {"ms": {"at_most": "much"}}},
        {"bounds": {"ms": {"at_mots": 3}}},
        {"bounds": {"ms": {"at_most": 3}}, "options": 3},
    ],
)
def test_what_is_no_baseline_is_said(content: Any) -> None:
    with pytest.raises(BaselineFault, match="FILE is no baseline"):
        parsed(content, "FILE")


def test_the_trees_baselines_are_ones_and_bind() -> None:
    files = sorted(TREE.glob("*.json"))
    assert files
    for path in files:
        baseline = parsed(json.loads(path.read_text()), path.name)
        assert baseline.bounds, path
        assert baseline.options is None, f"{path.name}: what is in the tree holds on any machine"
