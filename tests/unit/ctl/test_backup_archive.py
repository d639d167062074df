"""What a damaged, cut, foreign or newer archive is told from a good one by."""

import struct
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from ctl.backup.archive import ArchiveFault, ArchiveReader, ArchiveWriter, new_file
from ctl.backup.manifest import (
    FORMAT,
    MANIFEST,
    SIGNATURE,
    TREE,
    ClusterFacts,
    Manifest,
    store_part,
    table_of,
)
from ctl.backup.seal import Secrets, seal, unseal
from ctl.backup.tree_nodes import TreeNode
from ctl.errors import CommandError

SECRET = "secret-of-this-deployment"
NODES = [TreeNode(f"/{number}", bytes([number]) * number) for number in range(200)]


def write(path: Path, *, format_number: int = FORMAT) -> None:
    with new_file(path) as stream, ArchiveWriter(stream) as archive:
        archive.add_lines(store_part("tenants"), [{"name": "acme", "ceilings": None}])
        archive.add_lines(TREE, NODES)
        manifest = Manifest(
            format=format_number,
            release="9.9.9",
            taken_at_ms=1,
            deployment="d",
            store_id="s",
            schema="0008",
            database="sqlite",
            master_term=4,
            cluster=ClusterFacts(cluster_id="c", brokers=(1,), is_local=True),
            parts=tuple(archive.parts),
        )
        archive.finish(manifest, SECRET)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "backup.zip"
    write(path)
    return path


def test_what_was_written_is_read(file: Path) -> None:
    with closing(ArchiveReader(file)) as archive:
        assert list(archive.lines(TREE, TreeNode)) == NODES
        assert [table_of(part.name) for part in archive.manifest.parts] == ["tenants", None]
        assert archive.is_signed_with(SECRET)
        assert not archive.is_signed_with("another")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file], "nothing else is left"


def test_a_file_that_is_there_is_not_replaced(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(FileExistsError, match="name another one"):
        write(file)
    assert file.read_bytes() == before


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(CommandError),
        new_file(tmp_path / "backup.zip") as stream,
        ArchiveWriter(stream) as archive,
    ):
        archive.add_lines("half", _failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0, 0.3, 0.9, 0.999])
def test_an_archive_that_was_cut_is_refused(file: Path, part: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ArchiveFault):
        ArchiveReader(file)


def test_every_byte_of_what_it_holds_is_looked_at(file: Path) -> None:
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        found = [archive.getinfo(name) for name in (store_part("tenants"), TREE, MANIFEST)]
    for info in found:
        lengths = struct.unpack_from("<HH", content, info.header_offset + 26)
        for at in (0, info.compress_size // 2, info.compress_size - 2):
            place = info.header_offset + 30 + sum(lengths) + at
            file.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
            with pytest.raises(ArchiveFault):
                ArchiveReader(file)


def _failing() -> Iterator[int]:
    yield 1
    raise CommandError("the database went away")


def _rewritten(file: Path, change: dict[str, bytes | None]) -> None:
    """The same zip with members of other content, with CRCs that are right."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (members | change).items():
            if content is not None:
                archive.writestr(name, content)


@pytest.mark.parametrize(
    "change",
    [
        {TREE: b""},
        {TREE: None},
        {"more": b"of somebody else's"},
        {MANIFEST: None},
        {MANIFEST: b"{}"},
        {MANIFEST: b"\xff"},
        {SIGNATURE: None},
    ],
    ids=str,
)
def test_members_are_those_that_the_manifest_says(file: Path, change: dict[str, bytes | None]) -> None:
    _rewritten(file, change)
    with pytest.raises(ArchiveFault):
        ArchiveReader(file)


def test_a_manifest_that_fits_is_still_not_ours(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        manifest = msgspec.json.decode(archive.read(MANIFEST)) | {"store_id": "mine"}
    _rewritten(file, {MANIFEST: msgspec.json.encode(manifest)})
    with closing(ArchiveReader(file)) as archive:
        assert not archive.is_signed_with(SECRET)


def test_a_newer_format_is_refused_with_what_reads_it(tmp_path: Path) -> None:
    write(tmp_path / "newer.zip", format_number=FORMAT + 1)
    with pytest.raises(ArchiveFault, match=r"9\.9\.9 or newer"):
        ArchiveReader(tmp_path / "newer.zip")


def test_something_else_is_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "something"
    path.write_text("else")
    with pytest.raises(ArchiveFault, match="no backup"):
        ArchiveReader(path)


def test_secrets_open_with_their_passphrase_only() -> None:
    secrets = Secrets(deployment_secret=SECRET, settings="a = 1\n")
    sealed = seal(secrets, "a passphrase that is long")
    assert SECRET.encode() not in sealed
    assert unseal(sealed, "a passphrase that is long") == secrets
    with pytest.raises(CommandError, match="another passphrase"):
        unseal(sealed, "a passphrase that is wrong")
    with pytest.raises(CommandError, match="too short"):
        seal(secrets, "short")
