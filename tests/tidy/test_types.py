"""Types of messages are those of the tables; what has no type is counted: who lessens it writes less here."""

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.message_types import STUB, made

ROOT: Final = Path(__file__).resolve().parents[2]
ANY: Final = {
    "broker": 53,
    "contracts": 0,
    "ctl": 218,
    "gateway": 40,
    "loadtests": 19,
    "master": 4,
    "pipeline": 129,
    "reconciler": 59,
    "runtime": 101,
    "tenants": 183,
    "traffic": 0,
    "wire": 96,
}


def test_types_of_messages_are_those_of_the_tables() -> None:
    assert STUB.read_text() == made(), "python -m tests.tidy.message_types --rewrite"


def _anys(package: str) -> int:
    """How often code of a package names `Any`, imports aside."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / package).rglob("*.py"))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))


@pytest.mark.parametrize("package", ANY)
def test_bare_any_only_becomes_rarer(package: str) -> None:
    assert _anys(package) <= ANY[package], "a type of wire.messages, of kio or a Protocol says more"
