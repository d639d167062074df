"""What a PromQL expression asks for, held against the metrics that docs/metrics.md lists.

The labels that an expression's series have follow from those of its metrics, as Prometheus makes them: a
legend, an alert's text or a matching that names others would be empty.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import promql_parser as promql
from prometheus_client import ProcessCollector

from tests.integration.stack import ROOT

Labels = frozenset[str]
TARGET: Final[Labels] = frozenset({"job", "instance", "namespace", "pod", "container", "endpoint"})
"""What Prometheus adds to each series of a PodMonitor."""
_ROW: Final = re.compile(r"^\| `(portico_\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
_SET_OPERATORS: Final = {"and", "or", "unless"}
_FILTERS: Final = {"topk", "bottomk", "limitk"}


class UnanswerableError(Exception):
    """The expression is no PromQL, or names what is not there."""


def metrics_of_page() -> dict[str, Labels]:
    """Each series of docs/metrics.md with its labels, and what comes beside them."""
    found: dict[str, Labels] = {"up": TARGET}
    for name, kind, labels in _ROW.findall((ROOT / "docs" / "metrics.md").read_text()):
        own = TARGET | frozenset(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_bucket": own | {"le"}, f"{name}_count": own, f"{name}_sum": own}
        else:
            found[name] = own
    for family in ProcessCollector(registry=None).collect():
        found[family.samples[0].name if family.samples else family.name] = TARGET
    return found


def labels_of(text: str, metrics: Mapping[str, Labels]) -> Labels:
    """The labels that the expression's series may have. Raises: UnanswerableError."""
    for variable in ("$__rate_interval", "$__interval", "$__range"):
        text = text.replace(variable, "5m")
    try:
        parsed = promql.parse(text)
    except ValueError as error:
        raise UnanswerableError(f"{text}: {error}") from error
    labels = _labels(parsed, metrics)
    if labels is None:
        raise UnanswerableError(f"{text}: a constant")
    return labels


def _labels(expr: Any, metrics: Mapping[str, Labels]) -> Labels | None:
    """None: a scalar or a string."""
    match expr:
        case promql.NumberLiteral() | promql.StringLiteral():
            return None
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _labels(expr.expr, metrics)
        case promql.MatrixSelector():
            return _labels(expr.vector_selector, metrics)
        case promql.VectorSelector():
            return _selected(expr, metrics)
        case promql.AggregateExpr():
            return _aggregated(expr, metrics)
        case promql.BinaryExpr():
            return _combined(expr, metrics)
        case promql.Call():
            return _called(expr, metrics)
    raise AssertionError(f"not looked at yet: {expr}")


def _known(asked: list[str], there: Labels, where: Any) -> None:
    if unknown := set(asked) - there:
        raise UnanswerableError(
            f"{where}: there is no label {', '.join(sorted(unknown))} among {sorted(there)}"
        )


def _selected(expr: Any, metrics: Mapping[str, Labels]) -> Labels:
    if expr.name not in metrics:
        raise UnanswerableError(f"there is no metric {expr.name}")
    _known([each.name for each in expr.matchers.matchers], metrics[expr.name], expr)
    return metrics[expr.name]


def _aggregated(expr: Any, metrics: Mapping[str, Labels]) -> Labels:
    inner = _labels(expr.expr, metrics)
    assert inner is not None, expr
    if str(expr.op) in _FILTERS:
        return inner
    if expr.modifier is None:
        return frozenset()
    _known(expr.modifier.labels, inner, expr)
    if expr.modifier.type == promql.AggModifierType.By:
        return frozenset(expr.modifier.labels)
    return inner - set(expr.modifier.labels)


def _combined(expr: Any, metrics: Mapping[str, Labels]) -> Labels | None:
    left, right = _labels(expr.lhs, metrics), _labels(expr.rhs, metrics)
    if left is None or right is None:
        return left if right is None else right
    modifier = expr.modifier
    if modifier is None or modifier.matching is None:
        if left != right and str(expr.op) != "or":
            raise UnanswerableError(f"{expr}: {sorted(left)} never match {sorted(right)}")
        matched = left
    elif modifier.matching.type == promql.LabelModifierType.Include:
        matched = frozenset(modifier.matching.labels)
        _known(modifier.matching.labels, left & right, expr)
    else:
        matched = left - set(modifier.matching.labels)
    if str(expr.op) in _SET_OPERATORS:
        return left | right if str(expr.op) == "or" else left
    joined = frozenset(modifier.group_labels or ()) if modifier is not None else frozenset()
    many = promql.VectorMatchCardinality.ManyToOne, promql.VectorMatchCardinality.OneToMany
    if modifier is None or modifier.card not in many:
        return matched
    ours, theirs = (left, right) if modifier.card == many[0] else (right, left)
    _known(list(joined), theirs, expr)
    return ours | joined


def _called(expr: Any, metrics: Mapping[str, Labels]) -> Labels | None:
    given = [labels for each in expr.args if (labels := _labels(each, metrics)) is not None]
    name = expr.func.name
    if not given:
        return None if name in ("time", "scalar") else frozenset()
    if name == "histogram_quantile":
        _known(["le"], given[0], expr)
        return given[0] - {"le"}
    if name in ("absent", "absent_over_time", "scalar"):
        return frozenset()
    return given[0]
