"""Two versions of the product side by side: a process runs the one that is current when it starts."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
BEFORE: Final = "945a792"
"""The commit that 0.1.0 was made of."""

_HOOK: Final = """\
import os, pathlib, sys
here = pathlib.Path(__file__)
tree = here.with_name("tree").read_text()
sys.path.insert(0, tree)
here.with_name(f"{os.getpid()}.runs").write_text(tree)
"""


class Trees:
    """A choice of tree for processes that are started with `environment` in a directory that holds no tree.

    A process keeps the tree it started with, what it imports later included.
    """

    def __init__(self, directory: Path, first: Path) -> None:
        directory.mkdir(parents=True)
        (directory / "sitecustomize.py").write_text(_HOOK)
        self._choice = directory / "tree"
        self.environment = {"PYTHONPATH": str(directory)}
        self.use(first)

    def of(self, pid: int) -> Path:
        """The tree that a process runs."""
        return Path(self._choice.with_name(f"{pid}.runs").read_text())

    def use(self, tree: Path) -> None:
        """From now on processes start with this tree."""
        staged = self._choice.with_suffix(".new")
        staged.write_text(str(tree))
        staged.rename(self._choice)


def check_out(commit: str, into: Path) -> Path:
    """The tree of a commit of this clone's history; returns where it is."""
    into.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode != 0:
        pytest.skip(f"the history up to {commit} is needed: git fetch --unshallow")
    subprocess.run(["tar", "-x", "-C", str(into)], input=archive.stdout, check=True)
    return into
