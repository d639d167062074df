"""The Dockerfiles: linted, what they copy is there, what they install is locked."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.kubernetes.chart import ROOT

FILES: Final = sorted((ROOT / "helm" / "images").glob("Dockerfile*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_images_are_as_the_chart_needs_them(path: Path) -> None:
    text = path.read_text()
    linter = str(Path(sys.executable).with_name("hadolint"))
    linted = subprocess.run([linter, str(path)], capture_output=True, text=True, timeout=120)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split()), sources
    locks = re.findall(r"--require-hashes -r (\S+)", text)
    assert len(locks) == text.count("pip install") - text.count("--no-deps /dist/") == 2
    assert all((ROOT / lock).exists() for lock in locks)
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for package in packages["targets"]["wheel"]["packages"]:
        assert f"COPY {package} {package}\n" in text, "the wheel is built from it"
