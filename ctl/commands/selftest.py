"""`portico test`: the project's tests, the default tier or a named one."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ctl.errors import CommandError, usage
from ctl.tools.mutants import AREAS, chosen, mutate

ROOT: Final = Path(__file__).resolve().parents[2]
TIERS: Final = {
    "browser": "the console's pages in a headless chromium (Debian: apt install chromium)",
    "java": "Apache Kafka and its tools (needs a Java runtime and Maven)",
    "go": "franz-go, sarama and kafka-go (needs a Go toolchain)",
    "spark": "the pipeline's jobs (Spark's Kafka and Delta jars come from Maven Central)",
    "release": "a release without its checkout, and upgrades to it (npm's registry; the clone's history)",
    "apache": "Apache Kafka's own client tests at a vip:vport (needs a Java runtime and Maven)",
    "ecosystem": "Streams, Connect, MirrorMaker 2, Flink, Debezium, Apicurio, mixed groups (Java, Go, npm)",
    "clients": "twelve clients of five languages at a vip:vport (Java, Maven, Go, Rust, npm)",
    "long": "many seeds, long soak, every page of the documents, promtool (what all of these need)",
}


_PARALLEL: Final = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
"""Many tests wait for servers more than they compute; tests of one file share theirs. In the tree's order the
short ones of `unit` come last, and no worker ends with a long file."""


def run_tests(
    tier: Annotated[str | None, typer.Option(metavar="|".join(TIERS), help="Run this tier only.")] = None,
    setup_only: Annotated[bool, typer.Option(help="Install what the tests need, run none.")] = False,
    mutants: Annotated[
        bool,
        typer.Option(
            "--mutants", help=f"Change the pure packages and list what no test notices: {', '.join(AREAS)}."
        ),
    ] = False,
    pytest_arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[PYTEST ARGUMENT | AREA]...")
    ] = None,
) -> int:
    """Run the tests that need only the package index, or one tier of those that need more."""
    if setup_only:
        return 0
    if tier is not None and tier not in TIERS:
        raise usage(f"there is no tier '{tier}': {', '.join(TIERS)}")
    if not (ROOT / "tests").is_dir():
        raise CommandError("there are no tests beside this installation: run it from a clone")
    if mutants:
        return _run_mutants(pytest_arguments or [])
    left_out = TIERS if tier is None else {"long"} - {tier}
    expression = " and ".join([*([tier] if tier else []), *(f"not {name}" for name in left_out)])
    parallel = _PARALLEL if tier is None and not pytest_arguments else ()
    where = [] if tier in (None, "long") or pytest_arguments else files_of(ROOT / "tests", tier)
    command = [sys.executable, "-m", "pytest", "-m", expression, *parallel, *(pytest_arguments or where)]
    code = subprocess.call(command, cwd=ROOT)
    if tier is None:
        print("left out: " + "; ".join(f"{name} - {what}" for name, what in TIERS.items()))
        print("run one with ./portico test --tier NAME", flush=True)
    return code


def files_of(tests: Path, tier: str) -> list[str]:
    """Where tests of a tier are: files that mark some, and folders whose conftest.py marks what is in them.

    To collect all 12,000 tests takes half a minute; a tier's, seconds.
    """
    marks = re.compile(rf"\bmark\.{tier}\b")
    marking = (path for path in sorted(tests.rglob("*.py")) if marks.search(path.read_text()))
    return [str(path.parent if path.name == "conftest.py" else path) for path in marking]


def _run_mutants(names: list[str]) -> int:
    """Exit code 1 when one lives."""
    living = 0
    for name, area in chosen(names).items():
        outcome = mutate(ROOT, area, os.cpu_count() or 1)
        states = ", ".join(f"{count} {state}" for state, count in outcome.states.most_common())
        print(f"{name}: {outcome.mutants} mutants: {states}", flush=True)
        for function, before, after in outcome.survivors:
            print(f"  {function}: {before}  ->  {after}", flush=True)
        living += len(outcome.survivors)
    return 1 if living else 0
