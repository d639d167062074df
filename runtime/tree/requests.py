"""Requests of ZooKeeper's protocol that kazoo does not know, in the form its connection takes.

`Multi` creates with create2, whose answer holds the new node's stat (a broker's epoch is a czxid), and
`MultiRead` (ZooKeeper 3.6) reads many nodes in one round trip.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, TypeAlias

from contracts.tree import (
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
    TreeUnavailable,
)
from runtime.tree.pure import is_path

MULTI_BYTES_MAX: Final = 1_000_000
"""A little less than jute.maxbuffer's default: a larger request costs the connection."""

_INT: Final = struct.Struct("!i")
_HEADER: Final = struct.Struct("!iBi")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_DELETE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _CHECK, _CREATE2, _ERROR = 2, 4, 5, 8, 13, 15, -1
_MULTI, _MULTI_READ = 14, 22
_END: Final = _HEADER.pack(_ERROR, 1, _ERROR)
_EPHEMERAL, _SEQUENTIAL = 1, 2

_OK, _ROLLED_BACK, _NO_NODE, _NO_AUTH = 0, -2, -101, -102
_NOT_OURS: Final = "its nodes belong to another deployment: they ask for another secret"
_CONFLICTS: Final = {
    _NO_NODE: Conflict.NO_NODE,
    -103: Conflict.BAD_VERSION,
    -108: Conflict.NO_CHILDREN_FOR_EPHEMERALS,
    -110: Conflict.NODE_EXISTS,
    -111: Conflict.NOT_EMPTY,
}

MultiOutcome: TypeAlias = list[CommitResult] | list[TreeConflict] | list[TreeUnavailable]


class Multi:
    """A transaction. Its answer is its results, or one error in their place.

    Invariant: a request that was meant for one session does nothing in another.
    """

    type: ClassVar[int] = _MULTI

    def __init__(self, ops: Sequence[Op], chroot: str, acl: bytes, in_session: Callable[[], bool]) -> None:
        """`acl` is that of nodes it creates, as the protocol has it."""
        self._ops = ops
        self._chroot = chroot
        self._in_session = in_session
        self._fenced = False
        self._body = b"".join(_operation(op, chroot, acl) for op in ops) + _END
        if len(self._body) > MULTI_BYTES_MAX:
            raise ValueError(f"a commit of {len(self._body)} bytes exceeds {MULTI_BYTES_MAX}: split it")

    def serialize(self) -> bytes:
        """What is sent; called when it is."""
        if self._in_session():
            return self._body
        self._fenced = True
        return _HEADER.pack(_CHECK, 0, -1) + _string("/") + _INT.pack(2**31 - 1) + _END

    def deserialize(self, buffer: bytes, offset: int) -> MultiOutcome:
        """The answer."""
        if self._fenced:
            return [TreeUnavailable("the session ended before the write was sent")]
        results: list[CommitResult] = []
        errors: list[int] = []
        while True:
            kind, done, _error = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                break
            if kind == _ERROR:
                errors.append(_INT.unpack_from(buffer, offset)[0])
                offset += _INT.size
                continue
            path, stat = self._ops[len(results)].path, None
            if kind == _CREATE2:
                path, offset = _read_string(buffer, offset)
                path = path[len(self._chroot) :]
            if kind in (_CREATE2, _SET_DATA):
                stat, offset = _read_stat(buffer, offset)
            results.append(CommitResult(path, stat))
        return [self._refusal(errors)] if errors else results  # type: ignore[return-value]

    def _refusal(self, errors: list[int]) -> TreeConflict | TreeUnavailable:
        for index, code in enumerate(errors):
            if code in _CONFLICTS:
                return TreeConflict(index, self._ops[index].path, _CONFLICTS[code])
            if code == _NO_AUTH:
                return TreeUnavailable(f"ZooKeeper refused operation {index}: {_NOT_OURS}")
            if code not in (_OK, _ROLLED_BACK):
                return TreeUnavailable(f"ZooKeeper refused operation {index} with its error {code}")
        return TreeUnavailable("ZooKeeper rolled a transaction back without a reason")


class MultiRead:
    """Data or children of many nodes. Its answer is a list with None for nodes that do not exist."""

    type: ClassVar[int] = _MULTI_READ

    def __init__(self, paths: Iterable[str], children: bool) -> None:
        header = _HEADER.pack(_GET_CHILDREN if children else _GET_DATA, 0, -1)
        self._body = b"".join(header + _string(path) + b"\0" for path in paths) + _END

    def serialize(self) -> bytes:
        """What is sent."""
        return self._body

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | list[str] | TreeUnavailable | None]:
        """The answer."""
        results: list[Node | list[str] | TreeUnavailable | None] = []
        while True:
            kind, done, _error = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return results
            if kind == _GET_DATA:
                data, offset = _read_buffer(buffer, offset)
                stat, offset = _read_stat(buffer, offset)
                results.append(Node(data, stat))
            elif kind == _GET_CHILDREN:
                names, offset = _read_names(buffer, offset)
                results.append(names)
            else:
                code = _INT.unpack_from(buffer, offset)[0]
                offset += _INT.size
                results.append(None if code == _NO_NODE else _unreadable(code))


def _unreadable(code: int) -> TreeUnavailable:
    return TreeUnavailable(f"a read failed: {_NOT_OURS if code == _NO_AUTH else f'error {code}'}")


def under(chroot: str, path: str) -> str:
    """A path below the chroot."""
    return path if not chroot else chroot if path == "/" else chroot + path


def stat_of(raw: Sequence[int]) -> Stat:
    """ZooKeeper's eleven numbers, as we keep them."""
    return Stat(version=raw[4], czxid=raw[0], ephemeral=raw[7] != 0, owner=raw[7])


def _operation(op: Op, chroot: str, acl: bytes) -> bytes:
    assert is_path(op.path), f"{op.path!r} is not a path of the tree"
    path = _string(under(chroot, op.path))
    match op:
        case Create(_path, data, ephemeral, sequential):
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
            body = path + _INT.pack(len(data)) + data + acl + _INT.pack(flags)
            return _HEADER.pack(_CREATE2, 0, -1) + body
        case SetData(_path, data, version):
            body = path + _INT.pack(len(data)) + data + _INT.pack(version)
            return _HEADER.pack(_SET_DATA, 0, -1) + body
        case Delete(_path, version):
            return _HEADER.pack(_DELETE, 0, -1) + path + _INT.pack(version)
        case Check(_path, version):
            return _HEADER.pack(_CHECK, 0, -1) + path + _INT.pack(version)


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


def _read_buffer(buffer: bytes, offset: int) -> tuple[bytes, int]:
    length = max(_INT.unpack_from(buffer, offset)[0], 0)
    start = offset + _INT.size
    return bytes(buffer[start : start + length]), start + length


def _read_string(buffer: bytes, offset: int) -> tuple[str, int]:
    raw, offset = _read_buffer(buffer, offset)
    return raw.decode(), offset


def _read_stat(buffer: bytes, offset: int) -> tuple[Stat, int]:
    return stat_of(_STAT.unpack_from(buffer, offset)), offset + _STAT.size


def _read_names(buffer: bytes, offset: int) -> tuple[list[str], int]:
    count = _INT.unpack_from(buffer, offset)[0]
    offset += _INT.size
    names = []
    for _ in range(count):
        name, offset = _read_string(buffer, offset)
        names.append(name)
    return sorted(names), offset
