"""Mutants: small changes to the pure packages, one at a time, that some test must notice (mutmut does it).

Each area is a set of modules and the tests that are to notice. Everything runs on a copy of the tree.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ctl.errors import CommandError


class Area(NamedTuple):
    """What is changed, and who has to notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = {
    "traffic": Area(("traffic/*.py",), ("tests/unit/traffic",)),
    "quota": Area(
        (
            *("master/allocation.py", "master/capacity.py", "master/decision.py", "master/demand.py"),
            *("master/fair.py", "master/leadership.py", "master/leases.py", "master/ledger.py"),
        ),
        ("tests/unit/master",),
    ),
    "replication": Area(
        (
            *("broker/replication/partition.py", "broker/replication/remote.py"),
            *("broker/replication/sessions.py", "broker/log/epoch_cache.py"),
        ),
        ("tests/unit/replication", "tests/unit/broker_log/test_truncation.py"),
    ),
    "controller": Area(("broker/controller/*.py",), ("tests/unit/controller",)),
    "groups": Area(("broker/groups/*.py",), ("tests/unit/groups",)),
    "transactions": Area(("broker/transactions/*.py",), ("tests/unit/transactions",)),
    "producers": Area(
        ("broker/log/producer_state.py", "broker/log/validation.py", "broker/log/transactions.py"),
        ("tests/unit/broker_log",),
    ),
}
_LEFT_OUT: Final = (
    ".git",
    ".venv",
    "data",
    "node_modules",
    "dist",
    "build",
    "mutants",
    ".*_cache",
    "__pycache__",
)
_CONFIGURATION: Final = """
[tool.mutmut]
source_paths = {sources}
also_copy = {others}
only_mutate = {modules}
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist"]
pytest_add_cli_args_test_selection = {tests}
mutate_only_covered_lines = true
timeout_constant = 30.0
"""


def survivors(root: Path, area: Area, processes: int) -> list[str]:
    """The names of mutants that every test let live, such as `traffic.flow.Flow.charge 3`.

    Raises: CommandError when the tests do not pass on the unchanged copy.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        _configure(tree, area)
        ran = _mutmut(tree, "run", "--max-children", str(processes))
        if ran.returncode != 0:
            raise CommandError(f"the tests do not pass before anything is changed:\n{ran.stdout[-4000:]}")
        return [
            _shown(name)
            for name, _, state in (line.strip().partition(": ") for line in _results(tree))
            if state == "survived"
        ]


def _configure(tree: Path, area: Area) -> None:
    sources = sorted({module.partition("/")[0] for module in area.modules})
    packages = sorted(path.parent.name for path in tree.glob("*/__init__.py") if path.parent.name != "tests")
    others = [each for each in packages if each not in sources]
    settings = {
        "sources": sources,
        "others": [*others, "portico", "docs", "requirements"],
        "modules": [*area.modules],
        "tests": [*area.tests],
    }
    with (tree / "pyproject.toml").open("a") as file:
        file.write(_CONFIGURATION.format(**settings))


def _results(tree: Path) -> list[str]:
    return _mutmut(tree, "results").stdout.splitlines()


def _mutmut(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=tree,
        env={**os.environ, "HYPOTHESIS_PROFILE": "mutants"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _shown(name: str) -> str:
    """`traffic.flow.xǁFlowǁcharge__mutmut_3` as `traffic.flow.Flow.charge 3`."""
    function, _, number = name.rpartition("__mutmut_")
    module, _, rest = function.rpartition(".x")
    return f"{module}.{rest.strip('ǁ_').replace('ǁ', '.')} {number}"


def chosen(names: Sequence[str]) -> dict[str, Area]:
    """Areas by name; all when none is named. Raises: CommandError."""
    if unknown := [name for name in names if name not in AREAS]:
        raise CommandError(f"there is no area '{unknown[0]}': {', '.join(AREAS)}")
    return {name: AREAS[name] for name in names or AREAS}
