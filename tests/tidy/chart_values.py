"""The table of docs/kubernetes.md: every value of the chart, by its schema, with the words of values.yaml.

`python -m tests.tidy.chart_values --rewrite` renews what stands between the two markers; a test compares it.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.tidy.bounds_tables import ROOT, table

CHART: Final[Path] = ROOT / "helm" / "portico"
PAGE: Final[Path] = ROOT / "docs" / "kubernetes.md"
BEGIN: Final = "<!-- begin of what is made from the chart: python -m tests.tidy.chart_values --rewrite -->"
END: Final = "<!-- end of what is made from the chart -->"
USUAL: Final = {
    "resources": "As of a pod's container.",
    "nodeSelector": "As of a pod.",
    "tolerations": "As of a pod.",
    "affinity": "As of a pod.",
    "labels": "Labels of these objects.",
    "annotations": "Annotations of these objects.",
    "storageClass": "Empty: the cluster's default.",
    "size": "Of its volume.",
    "tag": "As `image.tag`.",
    "digest": "As `image.digest`.",
    "port": "Of its Service.",
}
"""Values that need no word of their own."""


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value that is not only a group of others, with its schema."""
    for name, each in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        if "properties" in each and name != "resources":
            yield from leaves(each, below)
        elif below != "global":  # Helm's own
            yield below, each


def words(text: str) -> dict[str, str]:
    """What `# --` comments above keys say, by path; a comment above several keys is for the first."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    said: list[str] | None = None
    for line in text.splitlines():
        comment = re.match(r"\s*# ?(-- )?(.*)", line)
        key = re.match(r"( *)([A-Za-z]\w*):", line)
        if comment:
            if comment[1]:
                said = [comment[2]]
            elif said is not None:
                said.append(comment[2])
        elif key:
            path = [each for each in path if each[0] < len(key[1])] + [(len(key[1]), key[2])]
            if said is not None:
                found[".".join(name for _indent, name in path)] = " ".join(said)
            said = None
        else:
            said = None
    return found


def allowed(schema: dict[str, Any]) -> str:
    """What a value may be, in a word."""
    if "description" in schema:
        return str(schema["description"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(allowed(each) for each in schema["anyOf"]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" if each != "" else "empty" for each in schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        kind = " or ".join(kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None:
        return f"{low} or more"
    return {"array": "list", "string": "text", "object": "map"}.get(kind, str(kind))


def rows() -> list[tuple[str, str, str, str]]:
    """Name, default, what it may be, what it is."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    text = (CHART / "values.yaml").read_text()
    values, said = yaml.safe_load(text), words(text)
    found = []
    for path, each in leaves(schema):
        default: Any = values
        for name in path.split("."):
            default = default.get(name) if isinstance(default, dict) else None
        shown = "" if default is None or default == "" else f"`{json.dumps(default)}`"
        what = said.get(path) or USUAL.get(path.rpartition(".")[2], "")
        found.append((f"`{path}`", shown, allowed(each), what))
    return found


def rendered() -> str:
    """Everything between the markers."""
    return table(("value", "default", "may be", "what it is"), rows())


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.chart_values --rewrite")
    before, behind = PAGE.read_text().split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}")
