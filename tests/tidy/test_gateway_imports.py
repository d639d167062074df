"""A gateway's files know each other in one direction, and hide nothing of it from the import contracts."""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = sorted((ROOT / "gateway").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_is_for_type_checkers_alone(path: Path) -> None:
    """`exclude_type_checking_imports` would not see it."""
    tree = ast.parse(path.read_text())
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.alias) and node.name == "TYPE_CHECKING"
    ]
    assert not [node for node in ast.walk(tree) if getattr(node, "attr", "") == "TYPE_CHECKING"]
