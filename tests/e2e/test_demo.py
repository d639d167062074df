"""The demo keeps every promise on a fresh stack."""

import os
import subprocess
import sys

import pytest

from tests.integration.stack import ROOT, Stack


@pytest.mark.timeout(240)
def test_demo(stack: Stack) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ctl.main", "demo", "--data-dir", str(stack.data_dir)],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "NOT kept" not in result.stdout
    assert result.stdout.count("kept") >= 14, (
        result.stdout
    )  # seven promises, told as they happen and in the table
    assert "is full:" in result.stdout
