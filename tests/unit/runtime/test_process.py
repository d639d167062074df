"""What a process leaves on disk is for its own user."""

import os
import stat
from pathlib import Path

from runtime.process import close_to_others, write_json


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_open_directory_is_closed_to_others(tmp_path: Path) -> None:
    old = tmp_path / "data"
    old.mkdir()
    old.chmod(0o755)
    close_to_others(old)
    assert _mode(old) == 0o700


def test_a_directory_that_all_users_share_is_left_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    close_to_others(shared)
    assert _mode(shared) == 0o1777


def test_small_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_json(tmp_path / "facts.json", {})
    finally:
        os.umask(before)
    assert _mode(tmp_path / "facts.json") == 0o600
