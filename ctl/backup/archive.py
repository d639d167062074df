"""The file a backup is: a zip whose last member says what the others must be.

It is written from start to end, so that it can go to a pipe, and read with a bounded part of it in memory.
Nothing in it is believed before every member was read and compared with the manifest.
"""

import hmac
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from ctl.backup.manifest import FORMAT, MANIFEST, SIGNATURE, Manifest, Part

_READ_BYTES: Final = 256 * 1024
_SMALL_BYTES_MAX: Final = 4 * 1024 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Length of a row or node; the largest that are written are a few MB."""

T = TypeVar("T")


class ArchiveFault(Exception):  # noqa: N818 - says what is so
    """The file is no archive, is damaged, or is of a newer release."""


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file for its owner that is there whole or not at all. Raises: OSError; FileExistsError for a file
    that is there: a backup replaces no other one."""
    if path.exists():
        raise FileExistsError(f"{path} exists: a backup replaces no file; name another one")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        _sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArchiveWriter:
    """Members one after the other, then `finish`. A context: at its end the file is a zip."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self.parts: list[Part] = []
        """What is written."""

    def add_lines(self, name: str, values: Iterable[object]) -> Part:
        """A member with a line of JSON for each value."""
        hashed, size_bytes, entries = sha256(), 0, 0
        with self._zip.open(name, "w", force_zip64=True) as member:
            for value in values:
                line = msgspec.json.encode(value) + b"\n"
                member.write(line)
                hashed.update(line)
                size_bytes += len(line)
                entries += 1
        return self._written(name, size_bytes, hashed.hexdigest(), entries)

    def add_bytes(self, name: str, content: bytes) -> Part:
        """A small member."""
        self._zip.writestr(name, content)
        return self._written(name, len(content), sha256(content).hexdigest(), 1)

    def _written(self, name: str, size_bytes: int, digest: str, entries: int) -> Part:
        part = Part(name=name, size_bytes=size_bytes, sha256=digest, entries=entries)
        self.parts.append(part)
        return part

    def finish(self, manifest: Manifest, secret: str) -> None:
        """Say what is in it, signed with the deployment's secret: an archive without this is damaged."""
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._zip.writestr(MANIFEST, content)
        self._zip.writestr(SIGNATURE, signature(content, secret))

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(self, *_error: object) -> None:
        self._zip.close()


def signature(manifest: bytes, secret: str) -> str:
    """What only who knows the deployment's secret can write behind a manifest."""
    return hmac.new(secret.encode(), b"portico backup\0" + manifest, sha256).hexdigest()


class ArchiveReader:
    """An archive that was found whole; `close` it."""

    def __init__(self, path: Path) -> None:
        """Reads all of it. Raises: ArchiveFault, OSError."""
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, EOFError) as error:
            raise ArchiveFault(f"{path} is no backup, or was cut off: {error}") from error
        try:
            self._content = self._small(MANIFEST)
            self._signature = self._small(SIGNATURE)
            self.manifest = self._read_manifest()
            self._check()
        except BaseException:
            self.close()
            raise

    def _small(self, name: str) -> bytes:
        try:
            with self._zip.open(name) as member:
                return member.read(_SMALL_BYTES_MAX)
        except (KeyError, *_UNREADABLE) as error:
            raise ArchiveFault(f"{self._path} is damaged: it has no {name} ({error})") from error

    def _read_manifest(self) -> Manifest:
        try:
            found = msgspec.json.decode(self._content)
            number = found.get("format") if isinstance(found, dict) else None
            if isinstance(number, int) and number > FORMAT:
                raise ArchiveFault(
                    f"{self._path} has format {number}, this release reads up to {FORMAT}: "
                    f"restore it with Portico {found.get('release', 'of then')} or newer"
                )
            return msgspec.convert(found, Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ArchiveFault(f"{self._path} is damaged: its manifest cannot be read ({error})") from error

    def _check(self) -> None:
        there = {name for name in self._zip.namelist() if name not in (MANIFEST, SIGNATURE)}
        said = {part.name for part in self.manifest.parts}
        if there != said or len(self.manifest.parts) != len(said):
            raise ArchiveFault(f"{self._path} is damaged: it holds {sorted(there)}, not {sorted(said)}")
        for part in self.manifest.parts:
            hashed, size_bytes = sha256(), 0
            try:
                with self._zip.open(part.name) as member:
                    while chunk := member.read(_READ_BYTES):
                        hashed.update(chunk)
                        size_bytes += len(chunk)
                        if size_bytes > part.size_bytes:
                            break
            except _UNREADABLE as error:
                raise ArchiveFault(f"{self._path} is damaged: {part.name}: {error}") from error
            if (size_bytes, hashed.hexdigest()) != (part.size_bytes, part.sha256):
                raise ArchiveFault(f"{self._path} is damaged: {part.name} is not what was written")

    def is_signed_with(self, secret: str) -> bool:
        """Whether it was written by who knows this secret, and is as it was written."""
        return hmac.compare_digest(signature(self._content, secret).encode(), self._signature)

    def part(self, name: str) -> Part | None:
        """A member's facts, None where there is none."""
        return next((part for part in self.manifest.parts if part.name == name), None)

    def lines(self, name: str, kind: type[T]) -> Iterator[T]:
        """The values of a member, one at a time. Raises: ArchiveFault for what is not one of these."""
        decoder = msgspec.json.Decoder(kind)
        with self._zip.open(name) as member:
            while line := member.readline(_LINE_BYTES_MAX):
                try:
                    yield decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise ArchiveFault(f"{self._path}: {name} holds what it should not: {error}") from error

    def content(self, name: str) -> bytes:
        """A small member."""
        return self._small(name)

    def close(self) -> None:
        """Close the file."""
        self._zip.close()


_UNREADABLE: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What zipfile says of members that are not as they were written; RuntimeError: one with a password."""
