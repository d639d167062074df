"""A report directory: everything that was measured, pictures, and the verdict in words."""

import json
import math
from pathlib import Path

import pytest

from loadtests.bounds import Baseline, Bound, Figure, judge
from loadtests.report import Heading, Outcome, Plot, Series, print_outcome, write

PNG = b"\x89PNG"


def _outcome() -> Outcome:
    plot = Plot(
        "over-time", "Requests <all>", "s", "ms", [Series("polite", [(0, 1.0), (1, 2.0)])], [(0.2, 0.4)]
    )
    return Outcome(
        "a run", [Figure("ms", 7.0), Figure("none", math.nan)], [plot], ["one line"], {"more": [1]}
    )


def test_a_report_holds_figures_plots_and_verdict(tmp_path: Path) -> None:
    outcome = _outcome()
    verdict = judge(outcome.figures, [Baseline("the tree", {"ms": Bound(at_most=5)})], {})
    page = write(tmp_path / "report", Heading("storm", {"seconds": 5}, {"commit": "abc"}), outcome, verdict)
    text = page.read_text()
    assert "Verdict: failed" in text
    assert "Requests &lt;all&gt;" in text, "what is shown is no markup"
    assert 'src="over-time.png"' in text
    assert (page.parent / "over-time.png").read_bytes().startswith(PNG)
    content = json.loads((page.parent / "figures.json").read_text())
    assert content["figures"] == {"ms": 7.0, "none": None}
    assert content["passes"] is False
    assert content["options"] == {"seconds": 5}
    assert content["verdict"][0]["bound"] == {"at_most": 5}
    assert content["details"] == {"more": [1]}


def test_the_terminal_says_which_bound_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = _outcome()
    print_outcome(outcome, judge(outcome.figures, [Baseline("the tree", {"ms": Bound(at_most=5)})], {}))
    shown = capsys.readouterr().out
    assert "one line" in shown
    assert "DOES NOT HOLD (the tree)" in shown
    assert "verdict: FAILED" in shown
    print_outcome(outcome, judge(outcome.figures, [Baseline("the tree", {"ms": Bound(at_most=9)})], {}))
    assert "verdict: passed" in capsys.readouterr().out
