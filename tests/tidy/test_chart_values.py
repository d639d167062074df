"""docs/kubernetes.md lists the chart's values as its schema and values.yaml have them."""

import json
from typing import Any

import yaml

from tests.tidy.chart_values import CHART, PAGE, leaves, of_page, rendered, rows, words


def test_the_table_is_that_of_the_chart() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.chart_values --rewrite"


def test_every_value_is_explained() -> None:
    assert len(rows()) > 100
    assert [name for name, _default, _allowed, what in rows() if not what] == []


def _paths(values: dict[str, Any], known: set[str], path: str = "") -> list[str]:
    found = []
    for name, value in values.items():
        below = f"{path}.{name}" if path else name
        if below in known or not isinstance(value, dict):
            found.append(below)
        else:
            found += _paths(value, known, below)
    return found


def test_the_schema_has_every_value_and_every_word_belongs_to_one() -> None:
    text = (CHART / "values.yaml").read_text()
    known = {path for path, _schema in leaves(json.loads((CHART / "values.schema.json").read_text()))}
    assert [path for path in _paths(yaml.safe_load(text), known) if path not in known] == []
    groups = {path.rpartition(".")[0] for path in known} | {"traces"}
    assert [path for path in words(text) if path not in known | groups] == []
