"""A jar that is not the pinned one is never used."""

import hashlib
from pathlib import Path

from pipeline.jars import JARS, Jar, fault


def test_faults(tmp_path: Path) -> None:
    jar = Jar("g", "a", "1", hashlib.sha256(b"good").hexdigest())
    assert fault(jar, tmp_path) == "is missing"
    (tmp_path / "a-1.jar").write_bytes(b"bad")
    assert "SHA-256" in str(fault(jar, tmp_path))
    (tmp_path / "a-1.jar").write_bytes(b"good")
    assert fault(jar, tmp_path) is None


def test_pins_are_nine_different_jars() -> None:
    assert len({jar.file_name for jar in JARS}) == 9
