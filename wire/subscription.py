"""The consumer protocol inside JoinGroup: topic names in bytes that Kafka's coordinator reads, too.

Version 0 is `topics, user data`; version 1 and later put `owned partitions` behind it, and every later
version only appends. So the prefix up to there is parsed, user data and the tail are copied as they are.
Bytes that do not parse are not ours to judge: they pass.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from wire.faults import TooManyEntries
from wire.scope import SCOPE_BYTES, STRING_BYTES_MAX, Scope

CONSUMER: Final = "consumer"
"""The protocol type of groups whose metadata has this form."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")

Budget: TypeAlias = list[int]
"""One number: how many names may still come."""
NameEdit: TypeAlias = Callable[[bytes], bytes]


class _Unreadable(Exception):  # noqa: N818 - control flow
    """The bytes are not a subscription, or not one of ours."""


def _counted(data: bytes, at: int, least_size: int) -> tuple[int, int]:
    (count,) = _I32.unpack_from(data, at)
    at += 4
    if count < 0 or count * least_size > len(data) - at:
        raise _Unreadable
    return count, at


def _counted_names(data: bytes, at: int, least_size: int, budget: Budget | None) -> tuple[int, int]:
    count, at = _counted(data, at, least_size)
    if budget is not None:
        budget[0] -= count
        if budget[0] < 0:
            raise TooManyEntries("more topics in subscriptions than one request may name")
    return count, at


def _edit_name(data: bytes, at: int, out: list[bytes], edit: NameEdit) -> int:
    (size,) = _I16.unpack_from(data, at)
    end: int = at + 2 + size
    if size < 0 or end > len(data):
        raise _Unreadable
    name = edit(data[at + 2 : end])
    if len(name) > STRING_BYTES_MAX:
        raise _Unreadable
    out += (_I16.pack(len(name)), name)
    return end


def _edit_subscription(data: bytes, edit: NameEdit, budget: Budget | None = None) -> bytes:
    (version,) = _I16.unpack_from(data)
    count, at = _counted_names(data, 2, 2, budget)
    out = [data[:at]]
    for _ in range(count):
        at = _edit_name(data, at, out, edit)
    (user_data_size,) = _I32.unpack_from(data, at)
    start, at = at, at + 4 + max(user_data_size, 0)
    if user_data_size < -1 or at > len(data):
        raise _Unreadable
    if version >= 1:
        count, at = _counted_names(data, at, 6, budget)
        out.append(data[start:at])
        for _ in range(count):
            start = _edit_name(data, at, out, edit)
            partitions, at = _counted(data, start, 4)
            at += 4 * partitions
            out.append(data[start:at])
        start = at
    out.append(data[start:])
    return b"".join(out)


def physical_subscription(data: bytes, scope: Scope, budget: Budget | None = None) -> bytes:
    """A member's metadata with the scope in front of its topics; the same bytes when they do not parse.

    Raises: TooManyEntries when the budget of the request is spent.
    """
    try:
        return _edit_subscription(data, scope.prefix_bytes.__add__, budget)
    except (_Unreadable, struct.error):
        return data


def tenant_subscription(data: bytes, scope: Scope) -> bytes:
    """The reverse. Metadata that has any name without our scope was never mapped, and stays as it is."""
    prefix = scope.prefix_bytes

    def stripped(name: bytes) -> bytes:
        if not name.startswith(prefix):
            raise _Unreadable
        return name[SCOPE_BYTES:]

    try:
        return _edit_subscription(data, stripped)
    except (_Unreadable, struct.error):
        return data
