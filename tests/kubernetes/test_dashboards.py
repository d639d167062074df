"""Dashboards, held against Grafana's schema; what they and the alerts ask for, against docs/metrics.md."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.kubernetes.chart import render
from tests.kubernetes.grafana import faults_of
from tests.kubernetes.promql import Labels, UnanswerableError, labels_of, metrics_of_page
from tests.kubernetes.test_monitoring import DASHBOARDS, MIXIN, WATCHED, alerts


def _board(name: str) -> dict[str, Any]:
    board: dict[str, Any] = json.loads((MIXIN / "dashboards" / f"portico-{name}.json").read_text())
    return board


def _metrics() -> dict[str, Labels]:
    """With what the chart's rules record."""
    found = metrics_of_page()
    (group,) = yaml.safe_load((MIXIN / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]:
        found[rule["record"]] = labels_of(rule["expr"], found)
    return found


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_grafana_knows_all_that_a_dashboard_says(path: Any) -> None:
    (config,) = [m for m in render(WATCHED) if m["kind"] == "ConfigMap" and path.name in m["data"]]
    assert faults_of(json.loads(config["data"][path.name])) == []


WRONG: list[tuple[str, Any, str]] = [
    ("panels.0.type", "timeserie", "there is no panel 'timeserie'"),
    ("panels.0.datasource.type", "promeus", "no data source of Grafana knows this query"),
    ("panels.0.fieldConfig.defaults.unit", "bytess", "there is no unit 'bytess'"),
    ("panels.0.fieldConfig.defaults.min", "0", "'0' is no number"),
    ("panels.0.options.legend.displayMode", "lists", "legend.display_mode: 'lists' is none of"),
    ("panels.0.options.tooltip.sort", "down", "'down' is none of"),
    ("panels.0.options.tooltip.heigth", 3, "nobody knows heigth"),
    ("panels.0.gridPos.h", "8", "grid_pos.h: '8' is no int"),
    ("panels.0.targets.0.instant", "no", "instant: 'no' is no bool"),
    ("panels.0.targets", {}, "targets"),
    ("templating.list.0.type", "datasources", "'datasources' is none of"),
    ("links.0.type", "dashboard", "'dashboard' is none of"),
    ("graphTooltip", 7, "graph_tooltip: 7 is none of"),
    ("tags", "portico", "'portico' is no list"),
    ("panels.0", 5, "it cannot be read"),
]


@pytest.mark.parametrize(("place", "value", "said"), WRONG, ids=[place for place, _value, _said in WRONG])
def test_what_grafana_would_not_understand_is_named(place: str, value: Any, said: str) -> None:
    board = _board("control")
    *above, last = place.split(".")
    part: Any = board
    for key in above:
        part = part[int(key) if isinstance(part, list) else key]
    part[int(last) if isinstance(part, list) else last] = value
    assert any(said in fault for fault in faults_of(board)), faults_of(board)


def _keys(part: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield (*above, key)
            yield from _keys(value, *above, key)
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from _keys(value, *above, number)


def test_no_word_of_a_dashboard_may_be_misspelt() -> None:
    """But a query variable's own question, which each data source words as it likes."""
    board = _board("quota")
    board["panels"] = board["panels"][:2]
    found = [keys for keys in _keys(board) if keys[:-1] != ("templating", "list", 1, "query")]
    assert len(found) > 80
    for *above, last in found:
        wrong = copy.deepcopy(board)
        part: Any = wrong
        for key in above:
            part = part[key]
        part[f"{last}s"] = part.pop(last)
        assert faults_of(wrong), (above, last)


def _targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}, {panel['title']}, {target['refId']}", target


def test_dashboards_ask_for_metrics_and_labels_that_there_are() -> None:
    metrics = _metrics()
    targets = list(_targets())
    assert len(targets) > 50
    faults = []
    for place, target in targets:
        try:
            labels = labels_of(target["expr"], metrics)
        except UnanswerableError as error:
            faults.append(f"{place}: {error}")
            continue
        named = set(re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]))
        faults += [f"{place}: {label} would be empty in the legend" for label in named - labels]
    assert faults == []
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            for metric, label in re.findall(r"label_values\((\w+), (\w+)\)", str(variable["query"])):
                assert label in metrics[metric], path.stem


def test_alerts_ask_for_metrics_and_labels_that_there_are() -> None:
    metrics = _metrics()
    for alert in alerts():
        labels = labels_of(alert["expr"], metrics)
        named = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
        assert named <= labels, f"{alert['alert']}: {named - labels} would be empty in its text"


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("sum(rate(portico_gateway_bytes_total[5m]", "unclosed"),
        ("portico_gateway_byte_total", "there is no metric portico_gateway_byte_total"),
        ("sum by (pods) (portico_store_up)", "there is no label pods"),
        ('portico_store_up{shop="x"}', "there is no label shop"),
        ("histogram_quantile(0.9, sum(rate(portico_console_route_seconds_bucket[5m])))", "no label le"),
        ("sum by (pod) (portico_store_up) / sum by (job) (portico_store_up)", "never match"),
        ("portico_store_up * on (tenant) group_left () portico_instance_info", "there is no label tenant"),
        ("up * on (instance) group_left (shop) portico_instance_info", "there is no label shop"),
        ("1 + 1", "a constant"),
    ],
)
def test_what_nothing_answers_is_named(expr: str, said: str) -> None:
    with pytest.raises(UnanswerableError, match=re.escape(said)):
        labels_of(expr, metrics_of_page())


def test_the_labels_of_an_answer_are_prometheus_own() -> None:
    metrics = metrics_of_page()
    for expr, labels in {
        "sum(portico_store_up)": set(),
        "sum by (pod, job) (portico_store_up) > 3": {"pod", "job"},
        "histogram_quantile(0.9, sum by (le, route) (rate(portico_console_route_seconds_bucket[5m])))": {
            "route"
        },
        "sum by (instance) (portico_gateway_connections) * on (instance) group_left (name) "
        "portico_instance_info": {"instance", "name"},
        "topk(3, sum by (pod) (up)) and sum by (pod) (portico_store_up)": {"pod"},
    }.items():
        assert labels_of(expr, metrics) == labels, expr
