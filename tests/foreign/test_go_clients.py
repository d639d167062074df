"""Go clients at a vip:vport: franz-go and sarama."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.stack import Stack

SOURCES = Path(__file__).parent / "go"


@pytest.mark.go
@pytest.mark.timeout(600)
def test_franz_go_and_sarama(stack: Stack, tmp_path: Path) -> None:
    assert shutil.which("go"), "this tier needs a Go toolchain: install one, or leave the tier out"
    program = tmp_path / "foreign"
    build = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        timeout=400,
        env=os.environ | {"GOFLAGS": "-mod=readonly"},
    )
    assert build.returncode == 0, build.stderr
    bootstrap = stack.create_instance("go-clients")["bootstrap_servers"]
    ran = subprocess.run([str(program), bootstrap], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == 2
