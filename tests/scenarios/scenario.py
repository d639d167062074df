"""A scenario file: what the client sends, what the backend must get and answers, what the client must get.

    api: METADATA
    versions: 0-11            # or a single number; it runs once for each
    instance: {auto_create_topics: true}          # changes to the instance's spec, optional
    topics: {iaaaaaaaaaaa.orders: 3}              # what the fake broker has, optional
    request: {topics: [{name: orders}]}
    upstream: {topics: [{name: iaaaaaaaaaaa.orders}]}     # null: nothing may go up
    reply: {topics: [...]}                        # the broker's answer; absent: its own
    response: {topics: [...]}                     # null: the connection is closed, with `cause`

`upstream` and `response` name the fields to check; lists must match in length. Fields a version does not
have are skipped. Values: error codes by name, bytes as text, durations in ms.
"""

import datetime
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from kio.schema.errors import ErrorCode

from wire.api_table import ApiKey
from wire.build import build
from wire.schema import Field, fields_of

ROOT = Path(__file__).parent


class Scenario(NamedTuple):
    """One file."""

    path: Path
    api: ApiKey
    versions: range
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """How pytest shows it."""
        return str(self.path.relative_to(ROOT).with_suffix(""))


def load_all() -> list[Scenario]:
    """Every scenario file."""
    return [_load(path) for path in sorted(ROOT.glob("*/*/*.yaml"))]


def _load(path: Path) -> Scenario:
    body = yaml.safe_load(path.read_text())
    unknown = body.keys() - {
        "api",
        "versions",
        "instance",
        "topics",
        "request",
        "upstream",
        "reply",
        "response",
        "cause",
        "about",
    }
    assert not unknown, f"{path}: unknown keys {unknown}"
    lowest, _, highest = str(body["versions"]).partition("-")
    versions = range(int(lowest), int(highest or lowest) + 1)
    assert path.parent.parent.name == body["api"], f"{path} stands in another API's folder"
    assert path.parent.name == f"v{body['versions']}", f"{path} stands in another version's folder"
    return Scenario(path, ApiKey[body["api"]], versions, body)


def entity(message_class: Any, values: dict[str, Any]) -> Any:
    """An entity of plain values."""
    return build(message_class, _typed(message_class, values))


def _typed(message_class: Any, values: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in fields_of(message_class)}
    return {name: _in(fields[name], value) for name, value in values.items() if name in fields}


def _in(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_one(field, one) for one in value]
    return _one(field, value)


def _one(field: Field, value: Any) -> Any:
    match field.kafka_type:
        case "entity":
            return _typed(field.value_type, value)
        case "error_code":
            return ErrorCode[value.lower()]
        case "bytes" | "records":
            return value.encode("latin-1")
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "uuid":
            return uuid.UUID(value)
    return value


def differences(expected: Any, message: Any, message_class: Any, at: str = "") -> list[str]:
    """Where a message differs from the fields an expectation names."""
    found: list[str] = []
    fields = {field.name: field for field in fields_of(message_class)}
    for name, value in expected.items():
        field = fields.get(name)
        if field is None:
            continue
        actual = getattr(message, name)
        where = f"{at}.{name}"
        if field.kafka_type == "entity" and field.is_array and value is not None and actual is not None:
            if len(value) != len(actual):
                found.append(f"{where}: {len(value)} entries expected, got {actual}")
                continue
            for index, (want, got) in enumerate(zip(value, actual, strict=True)):
                found += differences(want, got, field.value_type, f"{where}[{index}]")
        elif field.kafka_type == "entity" and value is not None and actual is not None:
            found += differences(value, actual, field.value_type, where)
        else:
            wanted = _in(field, value)
            wanted = tuple(wanted) if isinstance(wanted, list) else wanted
            if wanted != actual:
                found.append(f"{where}: expected {wanted!r}, got {actual!r}")
    return found
