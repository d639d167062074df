"""The shell commands that documents show: where each of them is run.

Whatever stands in a `sh` or `shell` fence of a page, or as a command in a runbook's text, is run against a
stack (`test_docs.py`), but for the few here: each with its reason, and with the test that runs it instead if
one does.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.integration.stack import ROOT

PAGES: Final = tuple(
    sorted(
        [
            *ROOT.glob("docs/*.md"),
            *ROOT.glob("docs/runbooks/*.md"),
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
        ]
    )
)
_FENCE: Final = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_PYTHON: Final = ("api.md", "index.md", "tenant.md", "clients.md", "README.md")
"""Pages whose programs run here, too: those of others need keys of an account."""
_KINDS: Final = {"sh": "sh", "shell": "sh", "python": "python"}
_INLINE: Final = re.compile(r"`(\./portico [^`]+)`")


class Elsewhere(NamedTuple):
    """Commands that `test_docs.py` does not run."""

    head: str
    """What such a line begins with: a regular expression."""
    why: str
    test: str = ""
    """The file that runs them instead; empty: nothing here can."""
    by: str = ""
    """What stands in that file because it does."""


ELSEWHERE: Final = (
    # A stack of their own.
    Elsewhere(
        r"\./portico up --backend", "needs a Kafka", "tests/integration/apache/conftest.py", '"--backend"'
    ),
    Elsewhere(
        r"\./portico (cluster (add|drain|undrain|remove)\b|instance create .*--cluster|instance move\b)",
        "needs a Kafka beside the stack",
    ),
    Elsewhere(
        r"\./portico kafka\b",
        "needs Java and Maven",
        "tests/integration/apache/test_kafka_command.py",
        '"--detach"',
    ),
    Elsewhere(r"(\./)?portico up\b", "starts a stack", "tests/e2e/test_docs_starts.py", "up_lines"),
    Elsewhere(r"(\./)?portico down\b", "ends the stack", "tests/e2e/test_docs_starts.py", "portico down"),
    Elsewhere(
        r"export PORTICO_DATABASE_URL=",
        "of a stack's start",
        "tests/e2e/test_docs_starts.py",
        "PORTICO_DATABASE_URL",
    ),
    Elsewhere(r"\./portico demo\b", "takes half a minute", "tests/e2e/test_demo.py", '"demo"'),
    Elsewhere(
        r"(\./)?portico instance (adopt|discard)\b",
        "its instance is one that the database has lost",
        "tests/e2e/test_control_database.py",
        '"adopt"',
    ),
    Elsewhere(
        r"\./portico reassign\b",
        "moves partitions among several brokers",
        "tests/integration/tools/test_cluster_tools.py",
        '"reassign"',
    ),
    # Minutes of load, Spark.
    Elsewhere(r"\./portico loadtest\b", "minutes of load", "tests/e2e/test_loadtests.py", "noisy-neighbour"),
    Elsewhere(r"\./portico drill (?!list)", "stacks of its own", "tests/e2e/test_drills.py", "drill"),
    Elsewhere(
        r"portico restore\b", "wants the disks of the brokers", "tests/e2e/test_backup.py", '"restore"'
    ),
    Elsewhere(r"\./portico pipeline\b", "needs Spark", "tests/pipeline/test_docs.py", "README.md"),
    Elsewhere(r"\./portico bench\b", "minutes of load", "tests/e2e/test_docs_starts.py", "bench"),
    # What makes and installs releases.
    Elsewhere(r"uvx\b|uv tool\b", "installs a release", "tests/release/test_release.py", "uvx"),
    Elsewhere(
        r"ssh-keygen -Y|sha256sum --check", "checks a release", "tests/release/test_release.py", "verify"
    ),
    Elsewhere(r"\.ci/images", "root, buildah and a mirror of Debian"),
    Elsewhere(r"\.ci/release", "makes a release", "tests/release/conftest.py", "release"),
    Elsewhere(r"\./portico test\b|\.ci/(run|docs)", "runs the tests that would run it"),
    Elsewhere(r"uv pip compile|printf '[^']*' \| uv pip compile", "asks a package registry for versions"),
    # Other programs, other machines.
    Elsewhere(r"cd tenants/web|npm ", "a web server for whoever edits pages, from npm's registry"),
    Elsewhere(r"docker |helm test ", "needs a container runtime, a Kubernetes cluster"),
    Elsewhere(
        r"helm install ", "needs a Kubernetes cluster", "tests/kubernetes/test_docs.py", "helm install"
    ),
    Elsewhere(r"sudo ", "another user's rights"),
    Elsewhere(r"kafka-console-consumer\.sh|kcat ", "not ours, not installed here"),
)


def fences(page: Path) -> list[tuple[str, str]]:
    """(language, text) of what a page wants run, in order; of a runbook the commands in its text, too."""
    text = page.read_text()
    found = [
        (_KINDS[language], body)
        for language, body in _FENCE.findall(text)
        if language in _KINDS and (language != "python" or page.name in _PYTHON)
    ]
    if page.parent.name == "runbooks":
        inline = _INLINE.findall(_FENCE.sub("", text))
        found += [("sh", command) for command in inline if "..." not in command]
    return found


def lines_of(script: str) -> list[str]:
    """Its commands, those over several lines as one, without what is only a remark."""
    joined = re.sub(r"\\\n\s*", "", script)
    return [
        line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]


def elsewhere(line: str) -> Elsewhere | None:
    """Why a line is not run by `test_docs.py`; None: it is."""
    return next((each for each in ELSEWHERE if re.match(each.head, line)), None)


def run_here(script: str) -> str:
    """What `test_docs.py` runs of it."""
    return "\n".join(line for line in lines_of(script) if elsewhere(line) is None)


def all_lines(head: str) -> Iterator[str]:
    """What any page shows that begins so, once each."""
    lines = (line for page in PAGES for kind, text in fences(page) if kind == "sh" for line in lines_of(text))
    yield from dict.fromkeys(re.sub(r"\s+#.*", "", line) for line in lines if re.match(head, line))


def make_desk(directory: Path) -> Path:
    """A working directory with a `portico` in it."""
    launcher = directory / "portico"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m runtime.start ctl.main "$@"\n')
    launcher.chmod(0o755)
    return directory


def run(desk: Path, data_dir: Path, kind: str, text: str, timeout_s: float = 300, **variables: str) -> str:
    """Run a script or a program there; what it printed. `data_dir` is where the stack is."""
    command = ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
    done = subprocess.run(
        command,
        cwd=desk,
        env={
            **{name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ},
            "PATH": f"{desk}:{os.environ['PATH']}",
            "PORTICO_DATA_DIR": str(data_dir),
            "PYTHONPATH": str(ROOT),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout
