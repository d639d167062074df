"""Types of the messages in our tables, for the checker: `wire/messages.pyi`.

A message has one class in kio for each version, and handlers serve all of them. The type has every field of
every version that is served; what only some have says so, and whoever reads it looks at the version first.
"""

import subprocess
import sys
import types
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from broker.requests.apis import APIS as BROKER
from gateway.apis import LEGACY, SERVED
from wire.codec import payload_class
from wire.schema import Field, fields_of

ROOT: Final = Path(__file__).resolve().parents[2]
STUB: Final = ROOT / "wire" / "messages.pyi"
_HEAD: Final = '''"""Made by `python -m tests.tidy.message_types --rewrite`."""

'''
_BASES: Final = """
@dataclass(frozen=True, kw_only=True)
class _Entity:
    __type__: ClassVar[EntityType]
    __version__: ClassVar[i16]
    __flexible__: ClassVar[bool]

@dataclass(frozen=True, kw_only=True)
class _Payload(_Entity):
    __api_key__: ClassVar[i16]
    @property
    def __header_schema__(self) -> type[Header]: ...
"""
"""What all of kio's classes have: its protocols `Entity` and `Payload`."""
_BUILTIN: Final = {bool: "bool", str: "str", bytes: "bytes", float: "float", int: "int"}


def served() -> dict[int, list[int]]:
    """The versions of each API that a broker or a gateway has a row for."""
    pairs = {*SERVED, *LEGACY} | {
        (key, version)
        for key, row in BROKER.items()
        if not row.is_ours
        for version in range(row.versions.lowest, row.versions.highest + 1)
    }
    versions: dict[int, list[int]] = {}
    for key, version in sorted(pairs):
        versions.setdefault(int(key), []).append(version)
    return versions


def _kinds(message_class: Any) -> Iterator[Any]:
    for field in fields_of(message_class):
        if field.kafka_type == "entity":
            yield from _kinds(field.value_type)
    yield message_class


class _Stub:
    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {
            "dataclasses": {"dataclass"},
            "typing": {"ClassVar"},
            "kio.static.constants": {"EntityType"},
            "kio.static.primitive": {"i16"},
            "kio.static.protocol": {"Header"},
        }
        self.names: dict[int, str] = {}

    def text(self, value_type: Any) -> str:
        """One value's type, as the stub names it."""
        if typing.get_origin(value_type) in (types.UnionType, typing.Union):
            return " | ".join(self.text(part) for part in typing.get_args(value_type))
        if value_type is types.NoneType:
            return "None"
        if value_type in _BUILTIN:
            return _BUILTIN[value_type]
        if id(value_type) in self.names:
            return self.names[id(value_type)]
        self.imports.setdefault(value_type.__module__, set()).add(value_type.__name__)
        return str(value_type.__name__)

    def field(self, field: Field) -> str:
        text = self.text(field.value_type)
        text = f"tuple[{text}, ...]" if field.is_array else text
        return f"{text} | None" if field.nullable else text

    def lines(self, name: str, base: str, kinds: dict[int, Any], versions: list[int]) -> Iterator[str]:
        """A class with the fields of all versions of one."""
        yield "@dataclass(frozen=True, kw_only=True)"
        yield f"class {name}({base}):"
        names = dict.fromkeys(field.name for kind in kinds.values() for field in fields_of(kind))
        for field_name in names:
            texts: dict[str, None] = {}
            having = []
            for version, kind in kinds.items():
                for field in fields_of(kind):
                    if field.name == field_name:
                        texts.update(dict.fromkeys(self.field(field).split(" | ")))
                        having.append(version)
            ordered = sorted(texts, key=lambda text: text == "None")
            yield f"    {field_name}: {' | '.join(ordered)}"
            if len(having) < len(versions):
                yield f'    """{_span(having)}"""'
        if not names:
            yield "    ..."
        yield ""


def _span(versions: list[int]) -> str:
    return f"v{versions[0]}" + (f"-{versions[-1]}" if versions[-1] != versions[0] else "")


def made() -> str:
    """The text of the stub."""
    stub = _Stub()
    messages: list[tuple[str, list[int], dict[str, dict[int, Any]]]] = []
    uses: Counter[str] = Counter()
    for key, versions in served().items():
        for response in (False, True):
            by_name: dict[str, dict[int, Any]] = {}
            for version in versions:
                for kind in _kinds(payload_class(key, version, response=response)):
                    by_name.setdefault(kind.__name__, {})[version] = kind
            top = payload_class(key, versions[-1], response=response).__name__
            messages.append((top, versions, by_name))
            uses.update(by_name.keys())
    body = []
    for top, versions, by_name in messages:
        for name, kinds in by_name.items():
            own = name if uses[name] == 1 else f"{top}{name}"
            stub.names.update((id(kind), own) for kind in kinds.values())
        for name, kinds in by_name.items():
            own = name if uses[name] == 1 else f"{top}{name}"
            base = "_Payload" if name == top else "_Entity"
            body += stub.lines(own, base, kinds, versions)
    head = [
        f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(stub.imports.items())
    ]
    text = _HEAD + "\n".join(head) + _BASES + "\n".join(body)
    for command in (("check", "--fix-only", "--select", "I"), ("format",)):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__" and "--rewrite" in sys.argv:
    STUB.write_text(made())
