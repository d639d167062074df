"""The data model of the metadata tree without IO: versions, transactions, sessions, what watches see.

A commit is worked out on an overlay of immutable records and then merged, so that a refused one leaves no
trace and a successful one is a list of rows to keep.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from contracts.tree import (
    ANY_VERSION,
    Check,
    CommitResult,
    Conflict,
    Create,
    Delete,
    Node,
    Op,
    SetData,
    Stat,
    TreeConflict,
)

ROOT = "/"


class Record(NamedTuple):
    """A node as it is kept."""

    data: bytes
    version: int
    czxid: int
    owner: int
    """Session of an ephemeral node, else 0."""
    sequence: int
    """Children ever created: numbers sequential ones."""
    child_count: int

    @property
    def stat(self) -> Stat:
        """What readers see besides the data."""
        return Stat(self.version, self.czxid, self.owner != 0, self.owner)


class Kind(StrEnum):
    """What a watch is on."""

    DATA = "data"
    CHILDREN = "children"


class Change(NamedTuple):
    """What a watch of this kind on this path is told."""

    kind: Kind
    path: str


class Applied(NamedTuple):
    """The outcome of a commit: results for the caller, rows to keep, changes for the watches."""

    results: list[CommitResult]
    rows: dict[str, Record | None]
    """Every touched node with its new record; None: deleted."""
    before: dict[str, Record | None]
    """The nodes as they were: `restore` takes the commit back."""
    changes: tuple[Change, ...]


class PureTree:
    """All nodes. Sessions are numbers that the caller hands out.

    Invariant: every node but the root has a parent, which counts it; `zxid` grows with each commit, so a
    node's czxid is larger than that of any node created before.
    """

    def __init__(self, records: Iterable[tuple[str, Record]] = (), zxid: int = 0) -> None:
        self._records: dict[str, Record] = {ROOT: Record(b"", 0, 0, 0, 0, 0)}
        self._records.update(records)
        self._names: dict[str, set[str]] = {}
        self._owned: dict[int, set[str]] = {}
        self.zxid = zxid
        for path in self._records:
            if path != ROOT:
                parent, name = split(path)
                assert parent in self._records, f"{path} has no parent"
                self._names.setdefault(parent, set()).add(name)
        for path, record in self._records.items():
            self._records[path] = record._replace(child_count=len(self._names.get(path, ())))
            if record.owner:
                self._owned.setdefault(record.owner, set()).add(path)

    def get(self, path: str) -> Node | None:
        """A node, or None."""
        record = self._records.get(path)
        return None if record is None else Node(record.data, record.stat)

    def children(self, path: str) -> list[str] | None:
        """Sorted names of a node's children, or None when there is no such node."""
        return sorted(self._names.get(path, ())) if path in self._records else None

    def commit(self, session: int, ops: Sequence[Op]) -> Applied:
        """Do all operations or none. Raises: TreeConflict."""
        work = _Overlay(self._records, self.zxid + 1, session)
        results = [work.apply(index, op) for index, op in enumerate(ops)]
        before = {path: self._records.get(path) for path in work.touched}
        self._merge(work.touched)
        self.zxid += 1
        return Applied(results, work.touched, before, tuple(dict.fromkeys(work.changes)))

    def expire(self, session: int) -> Applied:
        """End a session: delete its ephemeral nodes."""
        return self.commit(session, [Delete(path) for path in sorted(self._owned.get(session, ()))])

    def restore(self, before: dict[str, Record | None]) -> None:
        """Take back the last commits, given the first `before` of each node they touched."""
        self._merge(before)

    def _merge(self, touched: dict[str, Record | None]) -> None:
        for path, record in touched.items():
            old = self._records.get(path)
            if path != ROOT and (old is None) != (record is None):
                parent, name = split(path)
                names = self._names.setdefault(parent, set())
                names.discard(name) if record is None else names.add(name)
            if old is not None and old.owner:
                self._owned[old.owner].discard(path)
            if record is None:
                self._records.pop(path, None)
                self._names.pop(path, None)
            else:
                self._records[path] = record
                if record.owner:
                    self._owned.setdefault(record.owner, set()).add(path)


class _Overlay:
    """One commit on its way: later operations see what earlier ones did."""

    def __init__(self, records: dict[str, Record], zxid: int, session: int) -> None:
        self._records = records
        self._zxid = zxid
        self._session = session
        self.touched: dict[str, Record | None] = {}
        self.changes: list[Change] = []

    def _find(self, path: str) -> Record | None:
        return self.touched[path] if path in self.touched else self._records.get(path)

    def apply(self, index: int, op: Op) -> CommitResult:
        assert is_path(op.path), f"{op.path!r} is not a path of the tree"
        match op:
            case Create():
                return self._create(index, op)
            case SetData(path, data, version):
                old = self._expect(index, path, version)
                record = old._replace(data=data, version=old.version + 1)
                self.touched[path] = record
                self.changes.append(Change(Kind.DATA, path))
                return CommitResult(path, record.stat)
            case Delete(path, version):
                return self._delete(index, path, version)
            case Check(path, version):
                self._expect(index, path, version)
                return CommitResult(path, None)

    def _expect(self, index: int, path: str, version: int) -> Record:
        record = self._find(path)
        if record is None:
            raise TreeConflict(index, path, Conflict.NO_NODE)
        if version not in (ANY_VERSION, record.version):
            raise TreeConflict(index, path, Conflict.BAD_VERSION)
        return record

    def _create(self, index: int, op: Create) -> CommitResult:
        parent_path, _name = split(op.path)
        parent = self._find(parent_path)
        if parent is None:
            raise TreeConflict(index, op.path, Conflict.NO_NODE)
        path = f"{op.path}{parent.sequence:010}" if op.sequential else op.path
        if self._find(path) is not None:
            raise TreeConflict(index, path, Conflict.NODE_EXISTS)
        if parent.owner:
            raise TreeConflict(index, path, Conflict.NO_CHILDREN_FOR_EPHEMERALS)
        record = Record(op.data, 0, self._zxid, self._session if op.ephemeral else 0, 0, 0)
        self.touched[path] = record
        self.touched[parent_path] = parent._replace(
            sequence=parent.sequence + 1, child_count=parent.child_count + 1
        )
        self._came_or_went(path, parent_path)
        return CommitResult(path, record.stat)

    def _delete(self, index: int, path: str, version: int) -> CommitResult:
        record = self._expect(index, path, version)
        if record.child_count or path == ROOT:
            raise TreeConflict(index, path, Conflict.NOT_EMPTY)
        parent_path, _name = split(path)
        parent = self._find(parent_path)
        assert parent is not None, f"{path} has no parent"
        self.touched[path] = None
        self.touched[parent_path] = parent._replace(child_count=parent.child_count - 1)
        self._came_or_went(path, parent_path)
        return CommitResult(path, None)

    def _came_or_went(self, path: str, parent_path: str) -> None:
        self.changes += (
            Change(Kind.DATA, path),
            Change(Kind.CHILDREN, path),
            Change(Kind.CHILDREN, parent_path),
        )


def split(path: str) -> tuple[str, str]:
    """A path's parent and name."""
    parent, _slash, name = path.rpartition("/")
    return parent or ROOT, name


def is_path(path: str) -> bool:
    """Whether a text is an absolute path without an empty part."""
    return path == ROOT or (path.startswith("/") and "//" not in path and not path.endswith("/"))
