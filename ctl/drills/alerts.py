"""Which alerts would speak, from what processes tell who scrapes them. Pure.

Knows the part of PromQL in which most of the chart's alerts are written: a metric with matchers, aggregated
or not, held against a number. `increase` is since the watch began, which is shorter than its window.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

_EXPRESSION: Final = re.compile(
    r"(?:(?P<aggregation>sum|max|min)(?: by \((?P<by>[^)]*)\) ?)?\()?"
    r"(?:(?P<increase>increase)\()?"
    r"(?P<metric>[a-z_:]+)(?:\{(?P<matchers>[^}]*)\})?"
    r"(?(increase)\[\w+\]\))(?(aggregation)\))"
    r" (?P<comparison>==|!=|>|<) (?P<number>[\d.]+)"
)
_MATCHER: Final = re.compile(r'(?P<label>\w+)(?P<how>=~|=)"(?P<value>[^"]*)"')
_AGGREGATIONS: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"sum": sum, "max": max, "min": min}
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name and its labels."""


class Sample(NamedTuple):
    """One value of one series."""

    metric: str
    labels: Mapping[str, str]
    value: float

    @property
    def series(self) -> Series:
        """What it is a value of."""
        return self.metric, frozenset(self.labels.items())


class Rule(NamedTuple):
    """An alert as its file says it."""

    alert: str
    expression: str
    for_s: int
    """How long it holds before somebody is woken."""

    @property
    def lingers(self) -> bool:
        """Whether it goes on holding after its cause has ended, for the length of its window."""
        return "increase(" in self.expression


class Condition(NamedTuple):
    """An expression, read."""

    metric: str
    matchers: tuple[tuple[str, re.Pattern[str]], ...]
    is_increase: bool
    aggregation: str | None
    by: tuple[str, ...]
    comparison: str
    number: float

    def selects(self, sample: Sample) -> bool:
        """Whether a sample is of the metric and matches."""
        return sample.metric == self.metric and all(
            pattern.fullmatch(sample.labels.get(label, "")) for label, pattern in self.matchers
        )


def parsed(expression: str) -> Condition | None:
    """The condition of an expression; None: it is beyond what is known here."""
    found = _EXPRESSION.fullmatch(expression)
    if found is None:
        return None
    matchers = tuple(
        (each["label"], re.compile(each["value"] if each["how"] == "=~" else re.escape(each["value"])))
        for each in _MATCHER.finditer(found["matchers"] or "")
    )
    by = tuple(each.strip() for each in (found["by"] or "").split(",") if each.strip())
    return Condition(
        found["metric"],
        matchers,
        found["increase"] is not None,
        found["aggregation"],
        by,
        found["comparison"],
        float(found["number"]),
    )


def holding(condition: Condition, samples: Iterable[Sample], first: Iterable[Sample]) -> list[Sample]:
    """The results for which a condition holds: samples, or aggregates of them. `first`: when the watch began.

    Without samples nothing holds, as in Prometheus.
    """
    selected = [sample for sample in samples if condition.selects(sample)]
    if condition.is_increase:
        before = {sample.series: sample.value for sample in first}
        selected = [each._replace(value=_increase(each, before)) for each in selected]
    if condition.aggregation is not None:
        selected = _aggregated(condition, selected)
    compare = _COMPARISONS[condition.comparison]
    return [sample for sample in selected if compare(sample.value, condition.number)]


def _increase(sample: Sample, before: Mapping[Series, float]) -> float:
    """A process that was started again counts from 0."""
    began = before.get(sample.series, 0.0)
    return sample.value - began if sample.value >= began else sample.value


def _aggregated(condition: Condition, samples: Sequence[Sample]) -> list[Sample]:
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for sample in samples:
        groups[tuple(sample.labels.get(label, "") for label in condition.by)].append(sample.value)
    aggregate = _AGGREGATIONS[condition.aggregation or "sum"]
    return [
        Sample(condition.metric, dict(zip(condition.by, key, strict=True)), aggregate(values))
        for key, values in groups.items()
    ]


class Change(NamedTuple):
    """An alert began to hold, or ended."""

    rule: Rule
    is_on: bool
    results: tuple[Sample, ...] = ()


class AlertWatch:
    """Follows alerts through the samples of a drill."""

    def __init__(self, rules: Iterable[Rule], first: Sequence[Sample]) -> None:
        self._conditions = {rule: condition for rule in rules if (condition := parsed(rule.expression))}
        self._first = first
        self._before = frozenset(self._now(first))
        self.on: frozenset[Rule] = self._before
        self.seen: set[str] = set()
        """Alerts that began to hold since."""

    @property
    def before(self) -> frozenset[str]:
        """Alerts that held already when the watch began."""
        return frozenset(rule.alert for rule in self._before)

    def _now(self, samples: Sequence[Sample]) -> dict[Rule, list[Sample]]:
        found = {
            rule: holding(condition, samples, self._first) for rule, condition in self._conditions.items()
        }
        return {rule: results for rule, results in found.items() if results}

    def look(self, samples: Sequence[Sample]) -> list[Change]:
        """What has changed since the last look."""
        now = self._now(samples)
        changes = [Change(rule, True, tuple(now[rule])) for rule in now if rule not in self.on]
        changes += [Change(rule, False) for rule in self.on if rule not in now]
        self.on = frozenset(now)
        self.seen |= {change.rule.alert for change in changes if change.is_on}
        return changes

    def is_quiet(self) -> bool:
        """Whether nothing holds that did not before, but for what lingers."""
        return all(rule in self._before or rule.lingers for rule in self.on)
