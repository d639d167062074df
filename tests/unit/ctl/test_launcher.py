"""Which environment the launcher makes for a command, and that it leaves the others alone.

A copy of the launcher and of the packages, with an installer in place of uv that notes what it is asked for
and makes environments whose Python says where it is; that of `.venv` runs the real command line without
pyspark.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = (
    "wire",
    "contracts",
    "traffic",
    "runtime",
    "gateway",
    "broker",
    "master",
    "tenants",
    "pipeline",
)
_UV: Final = """#!/bin/sh
echo "${{VIRTUAL_ENV##*/}} $*" >>"{log}"
[ "$1" = venv ] || exit 0
mkdir -p "$VIRTUAL_ENV/bin"
cat >"$VIRTUAL_ENV/bin/python" <<'END'
#!/bin/sh
venv=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
[ "$1" = -c ] && exit 0
if [ -n "${{PORTICO_TEST_REAL:-}}" ] && [ "${{venv##*/}}" = .venv ]; then
    PYTHONPATH={bare}:{root} exec {python} "$@"
fi
echo "${{venv##*/}} $*"
echo "${{PYTHONDONTWRITEBYTECODE-written}} ${{PYTHONPYCACHEPREFIX#"$venv"}}" >&2
END
chmod +x "$VIRTUAL_ENV/bin/python"
"""
_WITHOUT_PYSPARK: Final = "import sys\nsys.modules['pyspark'] = None\n"


class Launched(NamedTuple):
    code: int
    out: str
    err: str
    asked: list[str]
    """Of the installer by this run."""


Launch = Callable[..., Launched]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "requirements", root / "requirements")
    for name in ("portico", "pyproject.toml", "hatch_build.py"):
        shutil.copy2(ROOT / name, root / name)
    (root / "tenants" / "web").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(_WITHOUT_PYSPARK)
    log, uv = tmp_path / "asked", tmp_path / "bin" / "uv"
    uv.write_text(_UV.format(log=log, bare=bare, root=root, python=sys.executable))
    uv.chmod(0o755)
    log.touch()

    def run(*arguments: str, **environment: str) -> Launched:
        before = len(log.read_text().splitlines())
        path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(
            [str(root / "portico"), *arguments],
            env={"PATH": path, "HOME": str(tmp_path), **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        asked = log.read_text().splitlines()[before:]
        return Launched(done.returncode, done.stdout.strip(), done.stderr, asked)

    return run


def _as_real(launch: Launch, tmp_path: Path) -> None:
    """The copy gets the command line, too."""
    root = tmp_path / "checkout"
    for package in (*PACKAGES, "ctl"):
        left_out = shutil.ignore_patterns("__pycache__", "web", "static")
        shutil.copytree(ROOT / package, root / package, ignore=left_out, dirs_exist_ok=True)
    launch("down")  # installs what serves


def _locks(launched: Launched) -> list[str]:
    return [Path(line.split()[-1]).name for line in launched.asked if " pip sync " in line]


def test_what_serves_is_installed_once(launch: Launch) -> None:
    first = launch("down")
    assert first.out == ".venv -m runtime.start ctl.main down"
    assert _locks(first) == ["service.lock"]
    assert launch("instance", "list").asked == []


def test_compiled_modules_are_kept_where_others_do_not_look(launch: Launch) -> None:
    first = launch("down", PYTHONDONTWRITEBYTECODE="1")
    assert first.err.splitlines()[-1] == "written /pycache"
    assert launch("down", PYTHONPYCACHEPREFIX="/elsewhere").err.splitlines()[-1] == "written /elsewhere"


@pytest.mark.parametrize("command", ["loadtest", "pipeline"])
def test_other_packages_have_an_environment_of_their_own(launch: Launch, command: str) -> None:
    launch("down")
    packages = {"loadtest": "loadtests"}.get(command, command)
    first = launch(command, "x")
    assert first.out == f".venv-{packages} -m runtime.start ctl.main {command} x"
    assert _locks(first) == [f"{packages}.lock"]
    assert all(line.startswith(f".venv-{packages} ") for line in first.asked), (
        "the stack's own is not touched"
    )
    assert launch(command, "x").asked == []
    assert launch("down").asked == [], "what serves is as it was"


def test_both_of_them_leave_each_other_alone(launch: Launch) -> None:
    launch("loadtest", "x")
    launch("pipeline", "x")
    assert launch("loadtest", "x").asked == []
    assert launch("pipeline", "x").asked == []


def test_the_tests_environment_runs_the_pipeline_and_keeps_no_second_one(launch: Launch) -> None:
    assert _locks(launch("test", "--setup-only")) == ["dev.lock"]
    again = launch("pipeline", "x")
    assert again.asked == []
    assert again.out.startswith(".venv -m")


def test_an_update_of_the_tests_environment_keeps_its_packages(launch: Launch, tmp_path: Path) -> None:
    launch("test", "--setup-only")
    with (tmp_path / "checkout" / "requirements" / "service.lock").open("a") as lock:
        lock.write("# another\n")
    assert _locks(launch("down")) == ["dev.lock"]


def test_a_set_that_is_none_is_said(launch: Launch) -> None:
    launched = launch("down", PORTICO_PACKAGES="moon")
    assert launched.code == 1
    assert "no set of packages 'moon'" in launched.err
    assert launched.asked == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--brokers", "20"], "'20' is not a number from 1 to 9"),
        (["--brokers=many"], "'many' is not a number from 1 to 9"),
        (["--brokers", "3", "--workers", "none"], "'none' is not a number"),
        (["--brokers", "3", "--min-insync-replicas", "5"], "more than the replication factor"),
    ],
)
def test_up_refuses_before_it_installs(
    launch: Launch, tmp_path: Path, arguments: list[str], says: str
) -> None:
    _as_real(launch, tmp_path)
    launched = launch("up", *arguments, PORTICO_TEST_REAL="1")
    assert launched.code == 2, launched
    assert says in launched.err
    assert launched.asked == []


@pytest.mark.parametrize("how", ["option", "variable", "data directory"])
def test_up_installs_zookeeper_where_several_brokers_need_it(
    launch: Launch, tmp_path: Path, how: str
) -> None:
    _as_real(launch, tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    variables = {"PORTICO_BROKERS": "3"} if how == "variable" else {}
    if how == "data directory":
        (data / "cluster.json").write_text('{"brokers": 3, "zookeeper": "own"}')
    options = ["--brokers", "3"] if how == "option" else []
    launched = launch("up", "--data-dir", str(data), *options, PORTICO_TEST_REAL="1", **variables)
    assert launched.code == 0, launched
    assert _locks(launched) == ["pipeline.lock"]
    assert launched.out.startswith(".venv-pipeline -m runtime.start ctl.main up --data-dir")


def test_up_with_a_named_zookeeper_needs_no_other_packages(launch: Launch, tmp_path: Path) -> None:
    _as_real(launch, tmp_path)
    options = ["--brokers", "2", "--zookeeper", "127.0.0.1:1", "--console", "203.0.113.1:1"]
    launched = launch("up", *options, PORTICO_TEST_REAL="1")
    assert "203.0.113.1" in launched.err, "it went on to start"
    assert launched.asked == []
