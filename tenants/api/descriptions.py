"""What each schema of the OpenAPI document says of its fields: from docstrings, from `tenants.api.wording`,
and units from names.

A message of msgspec has its fields' docstrings only in its source, where they are read from.
"""

import ast
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final

from tenants.api.wording import COMMON, OWN, Word

_UNITS: Final = (
    ("_at_ms", "epoch ms"),
    ("start_ms", "epoch ms"),
    ("at_ms", "epoch ms"),
    ("bytes_per_s", "bytes/s"),
    ("bytes_per_day", "bytes per day"),
    ("throttled_ms_per_s", "ms per s"),
    ("_ms_max", "ms"),
    ("_ms", "ms"),
    ("bytes_max", "bytes"),
    ("_rate_max", "per s"),
    ("_per_s", "bytes/s; of request time, us of CPU per s"),
    ("_bytes", "bytes"),
    ("bytes_avg", "bytes"),
    ("_minor", "minor units of the currency"),
    ("_hours", "h"),
    ("percent", "% of a core"),
    ("before_bytes", "bytes"),
)
"""Units by the end of a name; the first that fits."""
_UNITLESS: Final = ("gb_hours", "request_percent_derived")


def unit_of(field: str) -> str | None:
    """What a field is counted in, by its name."""
    if field in _UNITLESS:
        return None
    return next((unit for end, unit in _UNITS if field.endswith(end)), None)


def docstrings(modules: Iterable[ModuleType]) -> dict[str, dict[str, str]]:
    """The docstrings behind the fields of the classes of some modules, inherited ones included."""
    found: dict[str, dict[str, str]] = {}
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                inherited: dict[str, str] = {}
                for base in node.bases:
                    inherited |= found.get(base.id, {}) if isinstance(base, ast.Name) else {}
                found[node.name] = inherited | _of_class(node)
    return found


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    said: dict[str, str] = {}
    for field, doc in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            said[field.target.id.rstrip("_")] = inspect.cleandoc(str(doc.value.value))
    return said


def describe(schemas: dict[str, Any], said: dict[str, dict[str, str]]) -> None:
    """Complete every field of the schemas in place: description with unit, and an example."""
    for name, schema in schemas.items():
        for field, found in schema.get("properties", {}).items():
            word = word_of(name, field)
            text = found.get("description") or said.get(name, {}).get(field) or (word.meaning if word else "")
            if text:
                found["description"] = _with_unit(field, text)
            if word is not None and word.example not in ({}, []):
                _give_example(found, word.example)


def _give_example(found: dict[str, Any], example: Any) -> None:
    """The example of one thing where the field is a list of such; lists of objects have their own."""
    if found.get("type") == "array" and not isinstance(example, list):
        if "$ref" in found["items"]:
            return
        example = [example]
    found.setdefault("examples", [example])


def word_of(schema: str, field: str) -> Word | None:
    """What is said of a field where its model says nothing."""
    return OWN.get(f"{schema}.{field}") or COMMON.get(field)


def _with_unit(field: str, text: str) -> str:
    unit = unit_of(field)
    text = " ".join(text.split()).rstrip(".")
    return text if unit is None or unit in text else f"{text} ({unit})"
