"""HDFS in the words of an object store, by which `store` knows all stores (docs/adr/0084).

Who we are is said by `HADOOP_USER_NAME` or by Kerberos, and clusters with several NameNodes by
`HADOOP_CONF_DIR`: by the same as to deltalake and to Spark.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hdfs_native import Client, FileStatus, WriteOptions
from obstore.exceptions import AlreadyExistsError, GenericError

SCHEME: Final = "hdfs"
_PIECE_BYTES: Final = 4 * 1024 * 1024
_LISTED: Final = 1_000
_FAULTS: Final = {
    "No NameNode hosts found": (
        "hdfs://HOST:PORT names a NameNode, hdfs://NAME a nameservice that HADOOP_CONF_DIR has to know"
    ),
    "SafeModeException": (
        "HDFS is in safe mode and takes no changes: a NameNode is so for some time after its start, or until "
        "somebody ends it (hdfs dfsadmin -safemode get)"
    ),
    "AccessControlException": (
        "HDFS refuses us: may the user that HADOOP_USER_NAME or a Kerberos ticket names read and write there?"
    ),
}


def fault(text: str) -> str | None:
    """What an error of this client or of delta-rs' says, for people; None: nothing that is known."""
    return next((told for said, told in _FAULTS.items() if said in text), None)


class Got(NamedTuple):
    """All of a file."""

    content: bytes

    def bytes(self) -> bytes:
        """As obstore says it."""
        return self.content


class HdfsStore:
    """Files below one NameNode's root, by keys without a slash at their beginning.

    A folder that does not exist is empty. Raises: FileNotFoundError, and obstore's exceptions.
    """

    def __init__(self, url: str, settings: dict[str, str] | None = None) -> None:
        """`url`: `hdfs://HOST:PORT`, or of a nameservice that `HADOOP_CONF_DIR` knows."""
        with _faults():
            self._client = Client(url, settings)

    def head(self, key: str) -> dict[str, Any]:
        """Size and time of a file."""
        with _faults():
            found = self._client.get_file_info(f"/{key}")
        if found.isdir:
            raise FileNotFoundError(key)
        return _told(found)

    def list(self, key: str | None) -> Iterator[list[dict[str, Any]]]:
        """All files below a folder, in pieces."""
        piece = []
        for each in self._listed(key or "", recursive=True):
            if not each.isdir:
                piece.append(_told(each))
            if len(piece) == _LISTED:
                yield piece
                piece = []
        yield piece

    def list_with_delimiter(self, key: str) -> dict[str, Any]:
        """Folders and files in one."""
        found = [*self._listed(key, recursive=False)]
        return {
            "common_prefixes": [_told(each)["path"] for each in found if each.isdir],
            "objects": [_told(each) for each in found if not each.isdir],
        }

    def get(self, key: str) -> Got:
        """All of a file."""
        with _faults():
            return Got(self._client.read(f"/{key}").read())

    def put(
        self, key: str, file: bytes | Path, *, mode: Literal["create", "overwrite"] = "overwrite"
    ) -> None:
        """A whole file or none, whoever is killed meanwhile: it is written beside and then renamed."""
        path = f"/{key}"
        draft = f"{path.rpartition('/')[0]}/.{uuid.uuid4()}.tmp"
        with _faults():
            with self._client.create(draft, WriteOptions(create_parent=True)) as writer:
                if isinstance(file, Path):
                    with file.open("rb") as local:
                        while piece := local.read(_PIECE_BYTES):
                            writer.write(piece)
                elif file:
                    writer.write(file)
            try:
                self._client.rename(draft, path, mode == "overwrite")
            except FileNotFoundError as error:  # it was renamed, and the answer was lost
                if mode == "create":
                    raise AlreadyExistsError(path) from error
                self._client.get_file_info(path)
            except FileExistsError:
                self._client.delete(draft)
                raise

    def rename(self, key: str, to: str) -> None:
        """Where no other file is."""
        with _faults():
            self._client.mkdirs(f"/{to}".rpartition("/")[0] or "/", create_parent=True)
            self._client.rename(f"/{key}", f"/{to}")

    def delete(self, key: str) -> None:
        """A file, or a folder with all below it."""
        with _faults():
            self._client.delete(f"/{key}", True)

    def state(self, key: str) -> tuple[int, datetime, bytes] | None:
        """Of what `put_after` wrote: number, time and content of the newest; None before the first."""
        if not (numbered := self._numbered(key)):
            return None
        newest = max(numbered)
        try:
            content = self.get(f"{key}/{newest}").content
        except FileNotFoundError:  # a newer one took its place
            return self.state(key)
        return newest, _at(numbered[newest]), content

    def put_after(self, key: str, content: bytes, number: int) -> int | None:
        """Write the state that follows `number`, 0 for the first, unless there is a newer one; its number.

        HDFS replaces no file on a condition. A state is a file of its own in a folder `key`; one is
        removed only once the next is there: the highest number never falls, and who made a lower one again
        sees it.
        """
        mine = number + 1
        try:
            self.put(f"{key}/{mine}", content, mode="create")
        except AlreadyExistsError:
            return None
        others = self._numbered(key)
        if max(others, default=0) > mine:
            self.delete(f"{key}/{mine}")
            return None
        for other in others:
            if other < mine:
                self.delete(f"{key}/{other}")
        return mine

    def _numbered(self, key: str) -> dict[int, FileStatus]:
        found = self._listed(key, recursive=False)
        return {int(name): each for each in found if (name := each.path.rpartition("/")[2]).isdigit()}

    def _listed(self, key: str, *, recursive: bool) -> Iterator[FileStatus]:
        try:
            with _faults():
                yield from self._client.list_status(f"/{key}", recursive)
        except FileNotFoundError:
            return


def _at(file: FileStatus) -> datetime:
    return datetime.fromtimestamp(file.modification_time / 1000, UTC)


def _told(file: FileStatus) -> dict[str, Any]:
    return {"path": file.path.strip("/"), "size": file.length, "last_modified": _at(file)}


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except FileExistsError as error:
        raise AlreadyExistsError(str(error)) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise GenericError(str(error)) from error
