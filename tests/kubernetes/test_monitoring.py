"""Alerts, rules and dashboards: their links, what they ask for, and what they look like."""

import json
import re
from typing import Any, Final

import pytest
import yaml

from tests.kubernetes.chart import CHART, ROOT, one, render

MIXIN: Final = CHART / "mixin"
DASHBOARDS: Final = sorted((MIXIN / "dashboards").glob("*.json"))
WATCHED: Final = {
    "monitoring": {
        "podMonitor": {"enabled": True},
        "rules": {"enabled": True, "runbookUrl": "https://runbooks.example.com/"},
        "dashboards": {"enabled": True},
    }
}


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MIXIN / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "runbooks").glob("Portico*.md")}
    assert {each["alert"] for each in alerts()} == set(pages)
    for name, text in pages.items():
        parts = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert parts == [name, "What it means", "What to look at", "What to do", "Drill"]
    rule = one(render(WATCHED), "PrometheusRule", "portico")
    for group in rule["spec"]["groups"]:
        for each in group["rules"]:
            if "alert" in each:
                link = f"https://runbooks.example.com/{each['alert']}"
                assert each["annotations"]["runbook_url"] == link
                assert each["labels"]["severity"] in ("critical", "warning")
                assert {"summary", "description"} <= each["annotations"].keys()


def test_tenants_keep_the_label_instance() -> None:
    monitor = one(render(WATCHED), "PodMonitor", "portico")
    assert all(each["honorLabels"] is True for each in monitor["spec"]["podMetricsEndpoints"])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_are_whole(path: Any) -> None:
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem and board["schemaVersion"] >= 39
    names = {each["name"] for each in board["templating"]["list"]}
    cells = set()
    for panel in board["panels"]:
        assert panel["title"] and panel["description"] and panel["targets"]
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells.add((grid["x"], grid["y"]))
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= names
            assert "{{{{" not in target["legendFormat"]
    assert len(cells) == len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    config = [m for m in render(WATCHED) if m["kind"] == "ConfigMap" and path.name in m["data"]]
    assert json.loads(config[0]["data"][path.name]) == board


def expressions() -> list[str]:
    """All that alerts, rules and dashboards ask for."""
    found = [each["expr"] for each in alerts()]
    (group,) = yaml.safe_load((MIXIN / "rules.yaml").read_text())["groups"]
    found += [each["expr"] for each in group["rules"]]
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        found += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found


def test_what_is_recorded_is_asked_for_by_its_name() -> None:
    (group,) = yaml.safe_load((MIXIN / "rules.yaml").read_text())["groups"]
    recorded = {each["record"] for each in group["rules"]}
    asked = {name for text in expressions() for name in re.findall(r"\bportico:[a-z_:0-9]+", text)}
    assert asked == recorded
