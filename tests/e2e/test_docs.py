"""What the documents show a newcomer is run, fence by fence, as it stands there.

Every `sh` and every `python` fence of these pages runs; addresses that stand for others are replaced.
What cannot run here (it starts a stack, needs another machine) is a `shell` fence, of which
`tests/tidy/test_docs.py` checks that its commands exist.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.stack import ROOT, Stack, running_stack

_FENCE: Final = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDRESS: Final = "127.0.0.1:20000"
_CONSOLE: Final = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Their own: an operator's first day sets what the cluster may sell."""
    with running_stack(tmp_path_factory.mktemp("docs") / "data") as stack:
        yield stack


@pytest.fixture(scope="module")
def desk(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a `./portico` that talks to the stack."""
    directory = tmp_path_factory.mktemp("desk")
    launcher = directory / "portico"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m runtime.start ctl.main "$@"\n')
    launcher.chmod(0o755)
    return directory


def _run(desk: Path, stack: Stack, language: str, text: str) -> None:
    command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
    done = subprocess.run(
        command,
        cwd=desk,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PORTICO_DATA_DIR": str(stack.data_dir),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def _instance(stack: Stack, name: str) -> str | None:
    items = stack.api("GET", "instances", tenant="*")["items"]
    return next((item["bootstrap_servers"] for item in items if item["name"] == name), None)


@pytest.mark.parametrize(
    ("page", "instance"),
    [
        ("index.md", "quick"),
        ("tenant.md", "shop"),
        ("operator.md", "orders"),
        ("access.md", "none"),
        ("faults.md", "shop"),
    ],
)
def test_what_the_page_shows_runs(desk: Path, stack: Stack, page: str, instance: str) -> None:
    fences = _FENCE.findall((ROOT / "docs" / page).read_text())
    assert fences, f"{page} shows nothing"
    for language, text in fences:
        address = _instance(stack, instance) if _ADDRESS in text else None
        shown = text.replace(_CONSOLE, stack.console_url)
        _run(desk, stack, language, shown.replace(_ADDRESS, address) if address else shown)


def test_programs_of_clients_run(desk: Path, stack: Stack) -> None:
    instance = stack.create_instance("clients-of-docs")
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 3})
    programs = [text for _, text in _FENCE.findall((ROOT / "docs" / "clients.md").read_text())]
    assert len(programs) == 3
    for text in programs:
        assert _ADDRESS in text
        _run(desk, stack, "python", text.replace(_ADDRESS, instance["bootstrap_servers"]))


def test_the_readme_shows_what_runs(desk: Path, stack: Stack) -> None:
    """Its commands that create: the others start stacks, or are run by the tests of those."""
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## Connect a client") : text.index("## Several brokers")]
    everyday = text[text.index("## Everyday commands") : text.index("## Read on")]
    for language, fence in _FENCE.findall(section) + _FENCE.findall(everyday):
        address = _instance(stack, "shop") if _ADDRESS in fence else None
        _run(desk, stack, language, fence.replace(_ADDRESS, address) if address else fence)
