"""Backups on a schedule: names, what goes, what a console hears, and what a failure leaves."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctl.backup.archive import ArchiveReader
from ctl.backup.directory import name_of, outdated, tidy
from ctl.errors import CommandError
from ctl.main import command_line
from tenants.store.engine import Store
from tenants.usecases.pipeline_runs import PipelineRuns
from tests.unit.ctl.test_backup_restoring import Deployment

DAY_MS = 24 * 3600 * 1000
NOON_MS = 1_700_000_000_000
OURS, THEIRS = "0a1b2c3d" * 4, "ffffffff" * 4


def hourly(deployment: str, count: int) -> list[str]:
    return [name_of(deployment, NOON_MS + hour * 3_600_000) for hour in range(count)]


def test_names_tell_whose_and_when() -> None:
    assert name_of(OURS, NOON_MS) == "portico-0a1b2c3d-20231114T221320Z.zip"
    names = hourly(OURS, 50)
    assert sorted(names) == names and len(set(names)) == 50


def test_the_oldest_go_and_nothing_of_others() -> None:
    ours, theirs = hourly(OURS, 5), hourly(THEIRS, 5)
    others = ["portico-0a1b2c3d-20231114T221320Z.zip.old", "portico-0a1b2c3d-mine.zip", "notes.txt"]
    assert outdated([*theirs, *reversed(ours), *others], ours[-1], 3) == ours[:2]
    assert outdated(ours, ours[-1], 5) == outdated([], ours[-1], 1) == []
    assert outdated(ours, ours[-1], 1) == ours[:-1]


def test_a_clock_that_was_turned_back_does_not_cost_the_new_one() -> None:
    ours = hourly(OURS, 5)
    assert outdated(ours, ours[0], 2) == ours[1:4]


def test_what_killed_ones_began_goes_after_a_day(tmp_path: Path) -> None:
    new = tmp_path / name_of(OURS, NOON_MS)
    mine, fresh, other = (
        tmp_path / f".{name_of(whose, NOON_MS)}.{pid}.tmp"
        for whose, pid in ((OURS, 1), (OURS, 2), (THEIRS, 3))
    )
    for path, age_ms in ((mine, DAY_MS + 1000), (fresh, 1000), (other, 9 * DAY_MS)):
        path.touch()
        os.utime(path, ((NOON_MS - age_ms) / 1000,) * 2)
    assert tidy(new, 3, NOON_MS) == []
    assert not mine.exists() and fresh.exists() and other.exists()


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "data")


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    directory = tmp_path / "backups"
    directory.mkdir()
    return directory


def back_up(deployment: Deployment, *words: Any) -> Any:
    arguments = ["backup", *map(str, words), "--no-secrets", "--data-dir", str(deployment.data_dir), "--json"]
    return CliRunner().invoke(command_line(), arguments)


def runs_of(deployment: Deployment) -> list[tuple[str, str, str]]:
    store = Store.attach(deployment.places.database_url)
    try:
        found = PipelineRuns(store).page("backup", None, None, 50)
    finally:
        store.close()
    return [(one.status.state.value, one.status.subject, one.status.error) for one in found]


def test_a_directory_gets_files_and_keeps_the_last(deployment: Deployment, backups: Path) -> None:
    secret = deployment.places.secret()
    assert secret is not None
    theirs = backups / name_of(THEIRS, NOON_MS)
    theirs.touch()
    first = back_up(deployment, backups, "--keep", 2)
    assert first.exit_code == 0, first.output
    made = Path(json.loads(first.stdout)["file"])
    ArchiveReader(made).close()
    stem = made.name.rpartition("-")[0]
    older = [backups / f"{stem}-20200101T00000{second}Z.zip" for second in range(3)]
    for path in older:
        path.touch()
    made = made.rename(backups / f"{stem}-20200101T000009Z.zip")
    second = back_up(deployment, backups, "--keep", 2)
    assert json.loads(second.stdout)["removed"] == [path.name for path in older]
    assert sorted(backups.iterdir()) == sorted([theirs, made, Path(json.loads(second.stdout)["file"])])
    assert [state for state, _file, _error in runs_of(deployment)] == ["succeeded"] * 2


def test_a_failure_removes_nothing_and_is_known(deployment: Deployment, backups: Path) -> None:
    good = Path(json.loads(back_up(deployment, backups).stdout)["file"])
    good = good.rename(backups / f"{good.name.rpartition('-')[0]}-20200101T000000Z.zip")
    deployment.places.tree_file.unlink()
    failed = back_up(deployment, backups, "--keep", 1)
    assert failed.exit_code == 1
    assert list(backups.iterdir()) == [good]
    (state, _file, error), _first = runs_of(deployment)
    assert state == "failed" and "metadata" in error


def test_what_cannot_be_read_back_is_no_backup(
    deployment: Deployment, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: ArchiveReader, path: Path) -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr(ArchiveReader, "__init__", cut)
    failed = back_up(deployment, backups, "--keep", 1)
    assert failed.exit_code == 1
    assert list(backups.iterdir()) == []
    assert "cannot be read back" in runs_of(deployment)[0][2]


def test_only_directories_are_tidied(deployment: Deployment, tmp_path: Path) -> None:
    refused = back_up(deployment, tmp_path / "one.zip", "--keep", 3)
    assert isinstance(refused.exception, CommandError) and refused.exception.code == 2
    assert not (tmp_path / "one.zip").exists()
