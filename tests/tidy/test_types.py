"""Types of messages are those of the tables; what has no type is counted, and the counts only go down."""

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.message_types import STUB, made

ROOT: Final = Path(__file__).resolve().parents[2]
ANY: Final = {}


def test_types_of_messages_are_those_of_the_tables() -> None:
    assert STUB.read_text() == made(), "python -m tests.tidy.message_types --rewrite"


def _anys(package: str) -> int:
    """How often code of a package names `Any`, imports aside."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / package).rglob("*.py"))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))


@pytest.mark.parametrize("package", ANY)
def test_bare_any_only_becomes_rarer(package: str) -> None:
    found = _anys(package)
    assert found <= ANY[package], "a type of wire.messages, of kio or a Protocol says more"
    assert found >= ANY[package], f"fewer than before: write {found} here, so that it stays so"
