"""Figures of a run, the bounds they are held to, and the verdict. Pure.

Bounds that hold on any machine (ratios of one run, errors, what is lost) are in the tree, a file for each run
in `loadtests/baselines`. Those of one machine are kept by `--update-baseline` with the options they were
measured with, and bind only runs with the same options.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Better(StrEnum):
    """Which way is good."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"
    """Told, and held to nothing by `--update-baseline`."""


class Figure(NamedTuple):
    """One result."""

    name: str
    """In the field's words with the unit last: `p99_beside_ms`."""
    value: float
    better: Better = Better.NEITHER
    tolerance: float = 0.5
    """How much worse than a kept one a later run may be, as a share of it."""


class Bound(NamedTuple):
    """What a figure must not pass; one side or both."""

    at_most: float | None = None
    at_least: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value is within; what is no number is not."""
        if math.isnan(value):
            return False
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )

    def __str__(self) -> str:
        sides = ((sign, limit) for sign, limit in (("<=", self.at_most), (">=", self.at_least)))
        return " and ".join(f"{sign} {limit:.6g}" for sign, limit in sides if limit is not None)


class BaselineFault(Exception):  # noqa: N818 - a sentence for the operator
    """A baseline that cannot be used."""


class Baseline(NamedTuple):
    """Bounds by figure, and the options that they are for: None is any."""

    source: str
    bounds: Mapping[str, Bound]
    options: Mapping[str, Any] | None = None


class Row(NamedTuple):
    """One figure held to one bound."""

    figure: str
    value: float
    bound: Bound
    source: str
    holds: bool


class Verdict(NamedTuple):
    """What a run is worth."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether every bound holds; a run that is held to nothing has not passed."""
        return bool(self.rows) and all(row.holds for row in self.rows)


def judge(figures: Iterable[Figure], baselines: Iterable[Baseline], options: Mapping[str, Any]) -> Verdict:
    """Every bound of every baseline that is for these options. What was not measured does not hold."""
    measured = {figure.name: figure.value for figure in figures}
    rows, notes = [], []
    for baseline in baselines:
        if baseline.options is not None and baseline.options != options:
            notes.append(f"{baseline.source} was measured with other options: not compared")
            continue
        for name, bound in baseline.bounds.items():
            value = measured.get(name, math.nan)
            rows.append(Row(name, value, bound, baseline.source, bound.holds(value)))
    return Verdict(tuple(rows), tuple(notes))


def parsed(content: Any, source: str) -> Baseline:
    """A baseline from its JSON. Raises: BaselineFault."""
    try:
        bounds = {str(name): _bound(sides) for name, sides in content["bounds"].items()}
        options = content.get("options")
        if options is not None and not isinstance(options, dict):
            raise ValueError("options are an object")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineFault(f"{source} is no baseline: {error}") from error
    return Baseline(source, bounds, options)


def _bound(sides: Mapping[str, float]) -> Bound:
    if not sides or set(sides) - set(Bound._fields):
        raise ValueError("a bound has at_most, at_least or both")
    return Bound(**{side: float(limit) for side, limit in sides.items()})


def kept(figures: Iterable[Figure], options: Mapping[str, Any]) -> dict[str, object]:
    """The JSON of a baseline that holds later runs to these figures, within their tolerance."""
    bounds = {}
    for figure in figures:
        if math.isnan(figure.value):
            continue
        if figure.better is Better.LOWER:
            bounds[figure.name] = {"at_most": figure.value * (1 + figure.tolerance)}
        elif figure.better is Better.HIGHER:
            bounds[figure.name] = {"at_least": figure.value * (1 - figure.tolerance)}
    return {"options": dict(options), "bounds": bounds}
