"""docs/security.md says what the code does: its tables, close causes, metrics, links and files."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from broker.monitoring.group_lag import GroupLag
from broker.requests.causes import CloseCause
from broker.requests.metrics import BrokerMetrics
from gateway.causes import DisconnectCause
from tests.tidy.bounds_tables import (
    BEGIN,
    CONSTANTS,
    END,
    PAGE,
    ROOT,
    docstrings,
    of_page,
    rendered,
    rewritten,
)

DOCUMENTS: Final = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
_METRIC: Final = re.compile(r"`(portico_[a-z0-9_]+)(?:\{[^}]*\})?`")
_COUNTERS: Final = ("CounterMetricFamily", "Counter", "_counter")
_OTHERS: Final = ("GaugeMetricFamily", "Gauge", "Histogram", "family")
_NO_METRICS: Final = frozenset({"portico_session"})


def test_the_tables_are_those_of_the_code() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.bounds_tables --rewrite"


def test_a_rewrite_changes_nothing_else() -> None:
    stale = f"before\n{BEGIN}\nan old table\n{END}\nbehind\n"
    renewed = rewritten(stale)
    assert renewed.startswith("before\n")
    assert renewed.endswith(f"{END}\nbehind\n")
    assert "an old table" not in renewed
    assert rewritten(renewed) == renewed


@pytest.mark.parametrize("kind", [DisconnectCause, CloseCause])
def test_every_close_cause_is_named_and_explained(kind: type[DisconnectCause | CloseCause]) -> None:
    text = PAGE.read_text()
    place = kind.__module__.replace(".", "/") + ".py"
    for cause in kind:
        assert f"`{cause}`" in text
        assert docstrings(place).get(f"{kind.__name__}.{cause.name}"), f"{cause!r} says what happened"


def test_every_bound_says_what_it_bounds() -> None:
    silent = [
        f"{module}.{name}"
        for module, names in CONSTANTS.items()
        for name in names
        if not docstrings(module.replace(".", "/") + ".py").get(name)
    ]
    assert silent == []
    assert " |  |\n" not in of_page(PAGE.read_text()).partition("### Why a gateway")[0]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_metrics_that_documents_name_exist(document: Path) -> None:
    named = set(_METRIC.findall(document.read_text())) - _NO_METRICS
    assert sorted(named - metric_names()) == []


def test_the_page_names_metrics_of_every_service() -> None:
    named = set(_METRIC.findall(PAGE.read_text()))
    for prefix in (
        "portico_broker_",
        "portico_gateway_",
        "portico_quota_",
        "portico_http_",
        "portico_console_",
    ):
        assert any(name.startswith(prefix) for name in named), prefix


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", PAGE.read_text())
    assert len(links) > 15
    for path, anchor in links:
        page = PAGE if path == "" else PAGE.parent / path
        assert page.exists(), path
        if anchor:
            heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
            assert anchor in {_slug(head) for head in heads}, anchor


def _slug(head: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", head.lower()).replace(" ", "-")


@cache
def metric_names() -> frozenset[str]:
    """Every series that a process of ours serves under a name that begins with `portico_`."""
    collectors = (BrokerMetrics(), GroupLag(tuple, lambda _topic, _index: None))
    found = {
        family.name + ("_total" if family.type == "counter" else "")
        for collector in collectors
        for family in collector.collect()
    }
    found |= {f"portico_broker_{name}" for name in _broker_gauges()}
    for package in ("gateway", "master", "tenants", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            found.update(_families(ast.parse(path.read_text())))
    return frozenset(found)


def _families(tree: ast.Module) -> Iterator[str]:
    """What is passed to a family's constructor, or to a function that makes one of a part of its name."""
    parts = dict(_makers(tree))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
            continue
        first = call.args[0]
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
            continue
        if call.func.id in parts:
            before, behind = parts[call.func.id]
            yield f"{before}{first.value}{behind}"
        elif call.func.id in _COUNTERS:
            yield first.value.removesuffix("_total") + "_total"
        elif call.func.id in _OTHERS:
            yield first.value


def _makers(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Functions that make a gauge of f"before{name}behind"."""
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.JoinedStr) and len(node.values) == 3:
                before, _name, behind = node.values
                if isinstance(before, ast.Constant) and isinstance(behind, ast.Constant):
                    text = str(before.value)
                    if text.startswith("portico_"):
                        yield function.name, (text, str(behind.value))


def _broker_gauges() -> Iterator[str]:
    """Names that `register_gauges` puts into the tables of a broker's metrics."""
    for node in ast.walk(ast.parse((ROOT / "broker" / "monitoring" / "gauges.py").read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant):
                yield str(key.value)
        elif isinstance(node, ast.Lambda) and isinstance(node.body, ast.Tuple):
            for total in node.body.elts:
                if isinstance(total, ast.Tuple) and isinstance(total.elts[0], ast.Constant):
                    yield f"{total.elts[0].value}_total"
