"""Every runbook has a drill that is played: a command that a test runs, or a test."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from ctl.drills.catalogue import DRILLS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted((ROOT / "docs" / "runbooks").glob("*.md"))


def _drill(page: Path) -> str:
    _before, heading, section = page.read_text().partition("\n## Drill\n")
    assert heading, "a page without a drill"
    return section


def _has_test(path: str, name: str) -> bool:
    tree = ast.parse((ROOT / path).read_text())
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in tree.body
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_names_a_drill_that_exists(page: Path) -> None:
    section = _drill(page)
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", section)
    commands = re.findall(r"`\./portico drill ([a-z-]+)", section)
    assert [f"{path}::{name}" for path, name in tests if not _has_test(path, name)] == []
    assert [name for name in commands if name not in DRILLS] == []
    own = [name for name in commands if page.stem in DRILLS[name].alerts]
    assert tests or own, "a drill that nobody plays"


def test_every_drill_stands_on_the_pages_of_its_alerts() -> None:
    assert len(PAGES) >= 18
    for name, drill in DRILLS.items():
        for alert in drill.alerts:
            section = _drill(ROOT / "docs" / "runbooks" / f"{alert}.md")
            assert f"`./portico drill {name}" in section or alert != drill.alerts[0], (name, alert)
        assert (ROOT / drill.runbook).exists()
