"""The rules of CONTRIBUTING.md that a program can check."""

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    *("wire", "contracts", "traffic", "runtime", "gateway", "broker", "master", "tenants", "pipeline"),
    *("reconciler", "ctl", "loadtests"),
)
FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70
CLOCKS: Final = {
    *(("time", name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")),
    *(("datetime", name) for name in ("now", "utcnow")),
    ("date", "today"),
    *(("random", name) for name in ("random", "randint", "choice", "randrange")),
    *(("uuid", name) for name in ("uuid1", "uuid4")),
}
PURE: Final = ("wire", "contracts", "traffic", "broker/groups", "gateway/session", "runtime/tree/pure.py")

SOURCES: Final = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_limits_are_those_that_contributing_names() -> None:
    named = f"Files up to {FILE_LINES_MAX} lines, functions up to {FUNCTION_LINES_MAX}"
    assert named in (ROOT / "CONTRIBUTING.md").read_text()


def test_whatever_renews_a_file_is_listed() -> None:
    listed = (ROOT / "CONTRIBUTING.md").read_text()
    makers = [path for path in (ROOT / "tests").rglob("*.py") if '"--rewrite"' in path.read_text()]
    assert len(makers) >= 4
    for path in makers:
        if path != Path(__file__).resolve():
            module = relative(path).removesuffix(".py").replace("/", ".")
            assert f"python -m {module} --rewrite" in listed, "CONTRIBUTING.md lists it"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_stay_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") <= FILE_LINES_MAX, "the file asks for a cut by concept"
    assert ast.get_docstring(tree), "a module says what it is"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [path for path in SOURCES if relative(path).startswith(PURE)], ids=relative)
def test_what_decides_reads_no_clock_and_draws_no_randomness(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if (name, node.func.attr) in CLOCKS:
                found.append(f"line {node.lineno}: {name}.{node.func.attr}")
    assert not found


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listing.stdout.splitlines()]


def test_lock_files_name_no_host() -> None:
    locks = tracked("requirements/*.lock", "*/package-lock.json")
    assert len(locks) >= 4
    for lock in locks:
        hosts = re.findall(r"https?://[^\s\"']+", lock.read_text())
        # the npm lock may name a package's funding page; what must not appear is where files come from
        assert not [host for host in hosts if host.endswith((".whl", ".tgz", ".tar.gz"))], lock.name
        if lock.suffix == ".json":
            packages = json.loads(lock.read_text())["packages"]
            assert not [name for name, facts in packages.items() if "resolved" in facts]


def test_every_process_serves_a_table_and_every_row_has_a_handler() -> None:
    from broker.requests.apis import APIS

    for row in APIS.values():
        assert (ROOT / "broker" / "handlers" / f"{row.module}.py").exists(), row


def test_the_broker_serves_whatever_the_gateway_offers() -> None:
    from broker.requests.apis import APIS as BROKER
    from gateway.apis import APIS as OFFERED
    from gateway.apis import Mode

    for key, row in OFFERED.items():
        if row.mode is not Mode.LOCAL:
            served, offered = BROKER[key].versions, row.versions
            assert max(served.lowest, offered.lowest) <= min(served.highest, offered.highest), key


def test_readme_commands_exist() -> None:
    commands = re.findall(r"^\s*\./portico ([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    main = (ROOT / "ctl" / "main.py").read_text()
    assert commands
    for command in commands:
        assert f'"{command}"' in main, command


def test_the_architecture_page_names_files_that_exist() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_the_architecture_page_says_is_in_a_file_is_there() -> None:
    named = re.findall(r"`(\w+)` in `([a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) >= 10
    assert [each for each in named if not re.search(rf"\b{each[0]}\b", (ROOT / each[1]).read_text())] == []
