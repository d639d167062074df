"""A person at a terminal is asked before something goes; a script is not."""

import os
import subprocess
import sys

import pytest

from tests.integration.broker.process import ROOT

_SCRIPT = "from ctl.confirm import confirm; confirm('All goes.', yes={yes}); print('gone')"


def _run(answer: str | None, *, yes: bool = False) -> "subprocess.CompletedProcess[str]":
    """Without an answer there is no terminal."""
    master, terminal = os.openpty()
    try:
        if answer is not None:
            os.write(master, answer.encode())
        return subprocess.run(
            [sys.executable, "-c", _SCRIPT.format(yes=yes)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL if answer is None else terminal,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(master)
        os.close(terminal)


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_no_changes_nothing(answer: str) -> None:
    run = _run(answer)
    assert run.returncode != 0
    assert "gone" not in run.stdout
    assert "All goes. Go on?" in run.stderr
    assert "nothing was changed" in run.stderr


def test_yes_goes_on() -> None:
    assert "gone" in _run("y\n").stdout


def test_who_said_yes_before_is_not_asked() -> None:
    run = _run("", yes=True)
    assert (run.stdout, run.stderr) == ("gone\n", "")


def test_a_script_is_not_asked() -> None:
    run = _run(None)
    assert (run.stdout, run.stderr) == ("gone\n", "")
