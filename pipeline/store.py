"""A lake's files and folders: on a disk by `pathlib`, in an object store by the same words (docs/adr/0084).

`str()` of either is a name that deltalake and Spark open. Who may read and write a store, and where it
answers, is said by the environment, in the names that deltalake, Arrow and AWS' own tools share:
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`; of Azure's
`AZURE_STORAGE_ACCOUNT_KEY`; of HDFS `HADOOP_USER_NAME` and `HADOOP_CONF_DIR`.
"""

import os
import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from pipeline import azure, hdfs
from pipeline.errors import PipelineError
from pipeline.hdfs import HdfsStore

_S3: Final = ("s3a", "s3")
_FIRST_TRIES: Final = 2
_REFUSALS: Final = (
    *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"),
    *("AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"),
)
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_METADATA_ADDRESS: Final = "169.254.169.254"
"""Where machines of a cloud ask for their credentials: asked when the environment names none."""
_TEXT_MAX: Final = 300


class StoreError(PipelineError):
    """An object store refuses us, does not answer, or has no such bucket."""


class StorePath(NamedTuple):
    """A file or a folder in an object store. A folder is there as long as something lies below it."""

    bucket: str
    """`s3a://NAME`, `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net` or `hdfs://HOST:PORT`."""
    key: str
    """Without a slash at its ends; empty for the bucket itself."""

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(self.bucket, f"{self.key}/{name}".strip("/"))

    @property
    def azure_host(self) -> str | None:
        """The account's host; None: it is no store of Azure's."""
        scheme, _, place = self.bucket.partition("://")
        return place.partition("@")[2] if scheme in azure.SCHEMES else None

    @property
    def is_hdfs(self) -> bool:
        """Whether Spark reaches it by itself."""
        return self.bucket.startswith(f"{hdfs.SCHEME}:")

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> "StorePath":
        """The folder that it lies in."""
        return StorePath(self.bucket, self.key.rpartition("/")[0])

    def exists(self) -> bool:
        """Whether it is a file. Raises: obstore's errors where the store does not say."""
        try:
            _store(self.bucket).head(self.key)
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether anything lies below it."""
        return next(self._below(), None) is not None

    def iterdir(self) -> Iterator["StorePath"]:
        """Files and folders in it."""
        found = _store(self.bucket).list_with_delimiter(self.key)
        for key in (*found["common_prefixes"], *(each["path"] for each in found["objects"])):
            yield StorePath(self.bucket, key)

    def rglob(self, pattern: str) -> Iterator["StorePath"]:
        """Files below it whose names end as the pattern, `*.parquet`, does."""
        for each in self._below():
            if each["path"].endswith(pattern.removeprefix("*")):
                yield StorePath(self.bucket, each["path"])

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a store has no empty folders."""

    def unlink(self) -> None:
        """Delete the file."""
        _store(self.bucket).delete(self.key)

    def remove(self) -> None:
        """Delete all that lies below it."""
        store = _store(self.bucket)
        if isinstance(store, HdfsStore):  # whose folders do not end with what is in them
            store.delete(self.key)
            return
        for each in list(self._below()):
            store.delete(each["path"])

    def changed_at(self) -> datetime | None:
        """When the newest file below it was written, by the store's clock; None where there is none."""
        return max((each["last_modified"] for each in self._below()), default=None)

    def _below(self) -> Iterator[Any]:
        for chunk in _store(self.bucket).list(self.key or None):
            yield from chunk


AnyPath = Path | StorePath


@cache
def _store(bucket: str) -> ObjectStore | HdfsStore:
    return HdfsStore(bucket) if StorePath(bucket, "").is_hdfs else from_url(bucket)


@cache
def _arrow_store(bucket: str) -> tuple[Any, str]:
    """Arrow's own client, and where paths in it begin: what is opened through Python's objects is read by one
    thread at a time.
    """
    from pyarrow.fs import AzureFileSystem, FileSystem, FSSpecHandler, PyFileSystem

    place = bucket.partition("://")[2]
    if StorePath(bucket, "").is_hdfs:  # Arrow's own client is Hadoop's, which is no package
        from hdfs_native.fsspec import HdfsFileSystem

        at = urlsplit(bucket)
        return PyFileSystem(FSSpecHandler(HdfsFileSystem(at.hostname, at.port))), ""
    if (host := StorePath(bucket, "").azure_host) is None:
        return FileSystem.from_uri(f"s3://{place}")[0], place
    return AzureFileSystem(**azure.for_arrow(host, os.environ)), place.partition("@")[0]


def arrow_files(folder: AnyPath) -> Any:
    """Arrow's file system of what lies below a folder."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    if isinstance(folder, Path):
        return SubTreeFileSystem(str(folder), LocalFileSystem())
    store, first = _arrow_store(folder.bucket)
    return SubTreeFileSystem(f"{first}/{folder.key}", store)


def lake_root(text: str) -> AnyPath:
    """A folder from its URL (`file:`, `s3a:`, `s3:`, `abfss:`, `hdfs:`) or path. Raises: PipelineError."""
    parts = urlsplit(text)
    if not parts.scheme:
        return Path(text).resolve()
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    is_azure = parts.scheme in azure.SCHEMES
    if (parts.username and not is_azure) or parts.password or parts.query:
        raise PipelineError(
            "a lake's URL names a bucket and a folder: who may read and write it is said by the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT_KEY) or the machine's own role"
        )
    if is_azure and parts.username and parts.hostname:
        return StorePath(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))
    if parts.scheme == hdfs.SCHEME and parts.netloc:
        return StorePath(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))
    if parts.scheme in _S3 and parts.netloc:
        return StorePath(f"s3a://{parts.netloc}", parts.path.strip("/"))
    raise PipelineError(
        "a lake is at file:///FOLDER or s3a://BUCKET/FOLDER or "
        f"abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER or hdfs://HOST:PORT/FOLDER, not at '{text}'"
    )


def must_answer(root: AnyPath) -> None:
    """Look once before anything is planned: a bucket that is not there looks like an empty lake afterwards.

    Raises: StoreError.
    """
    if isinstance(root, StorePath):
        try:
            next(iter(_impatient(root).list(root.key or None)), None)
        except BaseError as error:
            raise StoreError(f"lake {root}: {store_fault(error)}") from error


def _impatient(root: StorePath) -> ObjectStore | HdfsStore:
    if root.is_hdfs:
        return HdfsStore(root.bucket, {"dfs.client.failover.max.attempts": str(_FIRST_TRIES)})
    return from_url(
        root.bucket, retry_config={"max_retries": _FIRST_TRIES, "retry_timeout": timedelta(seconds=20)}
    )


def store_fault(error: BaseException) -> str:
    """What a store, or a table in it, could not do, for people."""
    text = str(error)
    code = found[1] if (found := _CODE.search(text)) else ""
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return "there is no such bucket (make it first; its name, and of S3's AWS_REGION, must be right)"
    if _METADATA_ADDRESS in text:
        return (
            "nobody says who we are: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of Azure's "
            "AZURE_STORAGE_ACCOUNT_KEY, or a role"
        )
    if (fault := hdfs.fault(text)) is not None:
        return fault
    if code in _REFUSALS or any(status in text for status in ("401 Unauthorized", "403 Forbidden")):
        return (
            f"the store refuses us ({code or 'forbidden'}): are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "of Azure's AZURE_STORAGE_ACCOUNT_KEY, right, and may they list, read, write and delete there?"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:_TEXT_MAX] if lines else type(error).__name__


def of_text(path: str) -> AnyPath:
    """A path from its `str()`, as tasks and logs carry it."""
    return lake_root(path) if "://" in path else Path(path)


def spark_url(path: AnyPath) -> str:
    """The name by which Spark opens it: a path alone is one of HDFS where `HADOOP_CONF_DIR` says so."""
    return f"file://{path.absolute()}" if isinstance(path, Path) else str(path)


def relative_to(path: AnyPath, folder: AnyPath) -> PurePosixPath:
    """The way from a folder to what lies below it."""
    return PurePosixPath(str(path)).relative_to(str(folder))


def open_parquet(path: AnyPath, **options: str) -> Any:
    """A `pyarrow.parquet.ParquetFile`. Raises: FileNotFoundError; else of Arrow or the store."""
    import pyarrow.parquet as pq

    if isinstance(path, Path):
        return pq.ParquetFile(path, **options)
    store, first = _arrow_store(path.bucket)
    return pq.ParquetFile(f"{first}/{path.key}", filesystem=store, **options)


def size_bytes(path: AnyPath) -> int:
    """Of a file."""
    if isinstance(path, Path):
        return path.stat().st_size
    return int(_store(path.bucket).head(path.key)["size"])


def move(file: AnyPath, to: AnyPath) -> None:
    """Put a file where no other is; across file systems it is copied.

    Raises: StoreError.
    """
    if isinstance(to, Path):
        assert isinstance(file, Path), "what is staged in a store belongs to tables of a store"
        to.parent.mkdir(exist_ok=True)
        file.rename(to)
        return
    try:
        if isinstance(file, Path):
            _store(to.bucket).put(to.key, file)
            file.unlink()
        else:
            _store(to.bucket).rename(file.key, to.key)
    except BaseError as error:
        raise StoreError(f"file {to} cannot be written: {store_fault(error)}") from error


def create(path: AnyPath, data: bytes) -> bool:
    """Write a whole file unless there is one of its name, whoever else does the same now.

    `data` is nobody else's: a store may have taken it and its answer may be lost, so it is looked at.
    """
    if isinstance(path, StorePath):
        try:
            _store(path.bucket).put(path.key, data, mode="create")
        except AlreadyExistsError:
            return read_bytes(path) == data
        return True
    draft = path.parent / f".{uuid.uuid4()}.tmp"
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return True


def read_bytes(path: AnyPath) -> bytes:
    """All of a file. Raises: FileNotFoundError."""
    if isinstance(path, Path):
        return path.read_bytes()
    return bytes(_store(path.bucket).get(path.key).bytes())


class State(NamedTuple):
    """One state of a file in a store."""

    e_tag: str
    at: datetime
    """By the store's clock."""
    data: bytes


def state(path: StorePath) -> State | None:
    """The state now of a file that `put_if` writes; None where there is none."""
    store = _store(path.bucket)
    if isinstance(store, HdfsStore):
        numbered = store.state(path.key)
        return None if numbered is None else State(str(numbered[0]), *numbered[1:])
    try:
        found = store.get(path.key)
    except FileNotFoundError:
        return None
    return State(str(found.meta["e_tag"]), found.meta["last_modified"], bytes(found.bytes()))


def put_if(path: StorePath, data: bytes, e_tag: str | None) -> str | None:
    """Write a file that is still in that state (None: not there); its new tag, or None where it was not."""
    store = _store(path.bucket)
    if isinstance(store, HdfsStore):
        number = store.put_after(path.key, data, int(e_tag or 0))
        return None if number is None else str(number)
    try:
        told = store.put(path.key, data, mode="create" if e_tag is None else {"e_tag": e_tag})
    except (AlreadyExistsError, PreconditionError, FileNotFoundError):
        return None
    return str(told["e_tag"])


def put(path: StorePath, data: bytes) -> None:
    """Write a file, whatever is there."""
    _store(path.bucket).put(path.key, data)


def written_at(path: StorePath) -> datetime | None:
    """When a file was written, by the store's clock; None where there is none."""
    try:
        found: datetime = _store(path.bucket).head(path.key)["last_modified"]
    except FileNotFoundError:
        return None
    return found
