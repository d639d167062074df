"""The drills' alerts are the chart's, and hold when Prometheus' would."""

from typing import Any

import pytest
import yaml

from ctl.drills.alert_rules import RULES
from ctl.drills.alerts import AlertWatch, Rule, Sample, holding, parsed
from tests.integration.stack import ROOT


def _chart() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOT / "helm" / "portico" / "mixin" / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_rules_are_those_of_the_chart_that_can_be_told_from_metrics() -> None:
    told = [rule for rule in _chart() if parsed(" ".join(rule["expr"].split())) is not None]
    assert {Rule(each["alert"], each["expr"], _seconds(each.get("for", "0s"))) for each in told} == set(RULES)
    assert len(RULES) > 10


def _sample(value: float, **labels: str) -> Sample:
    return Sample("m", labels, value)


@pytest.mark.parametrize(
    ("expression", "samples", "results"),
    [
        ("m == 0", [_sample(0, a="x"), _sample(1, a="y")], [({"a": "x"}, 0)]),
        ("m > 0", [], []),
        ("sum(m) != 1", [], []),
        ("sum(m) != 1", [_sample(0, a="x"), _sample(0, a="y")], [({}, 0)]),
        ("sum(m) != 1", [_sample(1, a="x"), _sample(0, a="y")], []),
        ("max by (a) (m) > 0", [_sample(0, a="x", b="1"), _sample(2, a="x", b="2")], [({"a": "x"}, 2)]),
        ('m{a=~".*y.*"} < 5', [_sample(1, a="xyz"), _sample(1, a="xz"), _sample(1)], [({"a": "xyz"}, 1)]),
        ('min(m{a="x.z"}) > 0.5', [_sample(1, a="x.z"), _sample(0, a="xyz")], [({}, 1)]),
        ("sum by (pod, a) (m) > 0", [_sample(1, a="x")], [({"pod": "", "a": "x"}, 1)]),
    ],
)
def test_what_holds(
    expression: str, samples: list[Sample], results: list[tuple[dict[str, str], float]]
) -> None:
    condition = parsed(expression)
    assert condition is not None
    assert [(dict(each.labels), each.value) for each in holding(condition, samples, [])] == results


@pytest.mark.parametrize(
    "expression", ["m", "rate(m[5m]) > 1", "m / n > 0.9", "sum(m > 0", "increase(m[5m) > 0", "m > n", "m ~ 1"]
)
def test_what_is_not_known_is_not_guessed(expression: str) -> None:
    assert parsed(expression) is None


def test_an_increase_is_since_the_watch_began_also_over_a_restart() -> None:
    condition = parsed("sum by (a) (increase(m[10m])) > 0")
    assert condition is not None
    first = [_sample(7, a="same"), _sample(7, a="more"), _sample(7, a="anew")]
    now = [_sample(7, a="same"), _sample(9, a="more"), _sample(1, a="anew"), _sample(3, a="new")]
    assert {each.labels["a"]: each.value for each in holding(condition, now, first)} == {
        "more": 2,
        "anew": 1,
        "new": 3,
    }


def test_a_watch_tells_what_begins_and_ends_and_what_lingers_is_no_unrest() -> None:
    down, errors = Rule("Down", "up == 0", 60), Rule("Errors", "sum(increase(m[10m])) > 0", 0)
    up = Sample("up", {}, 1)
    watch = AlertWatch((down, errors), [up, _sample(1)])
    assert watch.before == frozenset() and watch.is_quiet()
    assert watch.look([up, _sample(1)]) == []
    began = watch.look([up._replace(value=0), _sample(2)])
    assert [(change.rule.alert, change.is_on) for change in began] == [("Down", True), ("Errors", True)]
    assert not watch.is_quiet()
    ended = watch.look([up, _sample(2)])
    assert [(change.rule.alert, change.is_on) for change in ended] == [("Down", False)]
    assert watch.is_quiet() and watch.seen == {"Down", "Errors"}


def test_what_held_before_is_nobodys_doing() -> None:
    watch = AlertWatch((Rule("Down", "up == 0", 60),), [Sample("up", {}, 0)])
    assert watch.before == {"Down"} and watch.is_quiet()
    assert watch.look([Sample("up", {}, 0)]) == [] and watch.seen == set()
