"""One release, made once for all tests of the tier."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Release:
    """What `.ci/release` made."""

    directory: Path
    public_key: str
    uv: str

    @property
    def wheel(self) -> Path:
        [wheel] = self.directory.glob("portico-*.whl")
        return wheel

    @property
    def version(self) -> str:
        return self.wheel.name.split("-")[1]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Made from this tree, signed by a key of the test's."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    out = tmp_path_factory.mktemp("release")
    key = tmp_path_factory.mktemp("key") / "release"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    made = subprocess.run(
        [str(ROOT / ".ci" / "release"), "--key", str(key), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert made.returncode == 0, made.stderr
    return Release(out, key.with_suffix(".pub").read_text(), uv)
