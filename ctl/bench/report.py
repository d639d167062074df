"""Results of a benchmark as a table for people and for docs/performance.md."""

from collections.abc import Iterator
from typing import Any

from ctl.bench.measure import Spread


def rows(results: dict[str, object], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(measurement, min, median, max) for every figure."""
    for name, value in results.items():
        label = f"{prefix}{name}"
        if isinstance(value, Spread):
            yield label, f"{value.low:.3g}", f"{value.median:.3g}", f"{value.high:.3g}"
        elif isinstance(value, dict):
            yield from rows(value, f"{label} / ")
        else:
            yield label, "", f"{value:.3g}", ""


def with_ratios(results: dict[str, object], ours: str, peers: tuple[str, ...]) -> dict[str, object]:
    """Add the medians' ratios of `ours` against each peer beside every set of peers."""
    added: dict[str, object] = {}
    for name, value in results.items():
        if not isinstance(value, dict):
            added[name] = value
            continue
        inner = with_ratios(value, ours, peers)
        if ours in value:
            ratios = {f"{ours} : {peer}": _ratio(value[ours], value[peer]) for peer in peers if peer in value}
            inner = inner | ratios
        added[name] = inner
    return added


def _ratio(ours: Any, peer: Any) -> Any:
    if isinstance(ours, Spread):
        return ours.median / peer.median if peer.median else float("nan")
    if not isinstance(ours, dict):
        return ours / peer if peer else float("nan")
    return {name: _ratio(ours[name], peer[name]) for name in ours}
