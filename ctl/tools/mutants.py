"""Mutants: small changes to the pure packages, one at a time, that some test must notice (mutmut does it).

Each area is a set of modules and the tests that are to notice. Everything runs on a copy of the tree.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ctl.errors import CommandError


class Area(NamedTuple):
    """What is changed, and who has to notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = {
    "traffic": Area(("traffic/*.py",), ("tests/unit/traffic",)),
    "quota": Area(("master/quota/*.py",), ("tests/unit/master",)),
    "replication": Area(
        (
            *("broker/replication/partition.py", "broker/replication/remote.py"),
            *("broker/replication/sessions.py", "broker/log/epoch_cache.py"),
        ),
        ("tests/unit/replication", "tests/unit/broker_log/test_truncation.py"),
    ),
    "elections": Area(
        tuple(f"broker/controller/{name}.py" for name in ("elections", "failover", "leadership", "states")),
        ("tests/unit/controller", "tests/transcripts"),
    ),
    "controller": Area(
        tuple(
            f"broker/controller/{name}.py"
            for name in (
                *("announcements", "brokers", "command_queue", "configs", "context", "core", "deletion"),
                *("notifications", "placement", "reassignment", "shutdown", "topics"),
            )
        ),
        ("tests/unit/controller", "tests/transcripts"),
    ),
    "groups": Area(("broker/groups/*.py",), ("tests/unit/groups",)),
    "transactions": Area(("broker/transactions/*.py",), ("tests/unit/transactions",)),
    "producers": Area(
        ("broker/log/producer_state.py", "broker/log/validation.py", "broker/log/transactions.py"),
        ("tests/unit/broker_log",),
    ),
}
_LEFT_OUT: Final = (
    ".git",
    ".venv*",
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
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not long"]
pytest_add_cli_args_test_selection = {tests}
mutate_only_covered_lines = true
timeout_constant = 2.0
timeout_multiplier = 5.0
"""
"""A mutant that loops for ever costs 5 x (2 s + what its tests take)."""


_AROUND: Final = 30
"""Characters shown before and after a change."""


class Survivor(NamedTuple):
    """A change that every test let live."""

    function: str
    """Such as `traffic.flow.Flow.charge`."""
    before: str
    """What was changed, with a little of what stands around it."""
    after: str


class Outcome(NamedTuple):
    """What became of an area's mutants."""

    states: Counter[str]
    """How many were killed, survived, ran out of time (noticed, too) and so on, in mutmut's words."""
    survivors: list[Survivor]

    @property
    def mutants(self) -> int:
        """How many there were."""
        return self.states.total()


def mutate(root: Path, area: Area, processes: int) -> Outcome:
    """Change an area's modules on a copy of the tree, one place at a time, and run the tests that reach it.

    Raises: CommandError when the tests do not pass on the unchanged copy.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        _configure(tree, area)
        ran = _mutmut(tree, "run", "--max-children", str(processes))
        if ran.returncode != 0:
            raise CommandError(f"the tests do not pass before anything is changed:\n{ran.stdout[-4000:]}")
        states: Counter[str] = Counter()
        living: list[str] = []
        for line in _results(tree):
            name, _, state = line.strip().partition(": ")
            states[state] += 1
            if state == "survived":
                living.append(name)
        return Outcome(states, [*described(tree, living)])


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
    lines = _mutmut(tree, "results", "--all", "true").stdout.splitlines()
    return [line for line in lines if "__mutmut_" in line]


def _mutmut(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=tree,
        env={**os.environ, "HYPOTHESIS_PROFILE": "mutants"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def described(tree: Path, names: Sequence[str]) -> Iterator[Survivor]:
    """mutmut keeps a function beside its mutants: `x_f__mutmut_orig` (or `xǁClassǁf...`), `x_f__mutmut_1`."""
    functions: dict[Path, dict[str, ast.AST]] = {}
    for name in names:
        module, _, function = name.rpartition(".")
        path = (tree / "mutants" / module.replace(".", "/")).with_suffix(".py")
        if path not in functions:
            functions[path] = {
                node.name: node
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        original = f"{function.rpartition('__mutmut_')[0]}__mutmut_orig"
        yield Survivor(
            f"{module}.{_shown(function)}",
            *_difference(*(_body(functions[path][each]) for each in (original, function))),
        )


def _body(function: ast.AST) -> str:
    lines = [line.strip() for line in ast.unparse(function).splitlines()]
    return " ".join(line for line in lines if "__mutmut_" not in line)


def _difference(before: str, after: str) -> tuple[str, str]:
    """Both from shortly before where they begin to differ to shortly after where they cease to."""
    alike = _alike(before, after)
    alike_at_end = _alike(before[:alike:-1], after[:alike:-1])
    start, end = max(0, alike - _AROUND), max(0, alike_at_end - _AROUND)
    return before[start : len(before) - end], after[start : len(after) - end]


def _alike(one: str, other: str) -> int:
    """How many characters are the same from the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(function: str) -> str:
    """`xǁFlowǁcharge__mutmut_3` as `Flow.charge`, `x_seed__mutmut_1` as `seed`."""
    return (
        function.rpartition("__mutmut_")[0].removeprefix("x").strip("ǁ").removeprefix("_").replace("ǁ", ".")
    )


def chosen(names: Sequence[str]) -> dict[str, Area]:
    """Areas by name; all when none is named. Raises: CommandError."""
    if unknown := [name for name in names if name not in AREAS]:
        raise CommandError(f"there is no area '{unknown[0]}': {', '.join(AREAS)}")
    return {name: AREAS[name] for name in names or AREAS}
