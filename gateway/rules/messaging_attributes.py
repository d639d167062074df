"""What OpenTelemetry's messaging conventions want told of a Kafka request. Pure.

Names of topics are the tenant's own. The name of a span has no topic in it: backends make series of those.
Source: OpenTelemetry semantic conventions 1.38, messaging spans and Kafka; they are not stable.
"""

import struct
from typing import Any, Final

from wire.api_table import ApiKey

_OPERATIONS: Final = {
    int(ApiKey.PRODUCE): ("send", "send"),
    int(ApiKey.FETCH): ("poll", "receive"),
    int(ApiKey.OFFSET_COMMIT): ("commit", "settle"),
    int(ApiKey.TXN_OFFSET_COMMIT): ("commit", "settle"),
}
"""Name and type."""
_HEAD: Final = struct.Struct(">ihhih")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_TRANSACTIONAL_FROM: Final = 3
_FETCH_BYTES_MAX_FROM: Final = 3
_ISOLATION_FROM: Final = 4
_SESSIONS_FROM: Final = 7
_FLEXIBLE_FROM: Final = {_PRODUCE: 9, _FETCH: 12}
_FETCH_BY_ID_FROM: Final = 13


def operation_of(api_key: int) -> str | None:
    """What the conventions call it, if they do."""
    found = _OPERATIONS.get(api_key)
    return None if found is None else found[0]


def request_attributes(frame: memoryview) -> dict[str, str]:
    """What the first bytes of a request say, as far as they are here."""
    _, api_key, api_version, _, client_id_bytes = _HEAD.unpack(bytes(frame[:14]).ljust(14, b"\xff"))
    found = {"messaging.system": "kafka"}
    if (operation := _OPERATIONS.get(api_key)) is not None:
        found |= {"messaging.operation.name": operation[0], "messaging.operation.type": operation[1]}
    if client_id_bytes > 0:
        found["messaging.client.id"] = _text(frame[14 : 14 + client_id_bytes])
    try:
        topic = _only_topic(frame, api_key, api_version, 14 + max(client_id_bytes, 0))
    except (struct.error, IndexError):
        topic = None  # it is not here, or not right: the editor says so
    if topic is not None:
        found["messaging.destination.name"] = topic
    return found


def values_of(request: Any) -> dict[str, str]:
    """What a decoded request names."""
    found = {}
    if isinstance(group := getattr(request, "group_id", None), str):
        found["messaging.consumer.group.name"] = group
    topics = getattr(request, "topics", None) or ()
    names = {getattr(each, "name", None) for each in topics}
    if len(names) == 1 and isinstance(name := names.pop(), str):
        found["messaging.destination.name"] = name
    return found


def _only_topic(frame: memoryview, api_key: int, api_version: int, at: int) -> str | None:
    """The topic of Produce and Fetch, where they have one. Raises: struct.error, IndexError."""
    if compact := api_version >= _FLEXIBLE_FROM.get(api_key, api_version + 1):
        at += 1  # no tagged fields in the header
    if api_key == _PRODUCE and compact:
        at += max(frame[at], 1)  # no client has an id of 127 bytes
    elif api_key == _PRODUCE and api_version >= _TRANSACTIONAL_FROM:
        at += 2 + max(_I16.unpack_from(frame, at)[0], 0)
    if api_key == _PRODUCE:
        at += 2 + 4  # acks, timeout
    elif api_key == _FETCH:
        if api_version >= _FETCH_BY_ID_FROM:
            return None  # an id is nothing that anybody looks for
        at += 4 + 4 + 4  # replica, wait, least bytes
        at += 4 if api_version >= _FETCH_BYTES_MAX_FROM else 0
        at += 1 if api_version >= _ISOLATION_FROM else 0
        at += 8 if api_version >= _SESSIONS_FROM else 0
    else:
        return None
    if compact:
        size = frame[at + 1] - 1
        name = frame[at + 2 : at + 2 + size]
        return _text(name) if frame[at] == 2 and 0 < size < 127 and len(name) == size else None
    if _I32.unpack_from(frame, at)[0] != 1:
        return None
    size = _I16.unpack_from(frame, at + 4)[0]
    name = frame[at + 6 : at + 6 + size]
    return _text(name) if size > 0 and len(name) == size else None


def _text(encoded: memoryview) -> str:
    return bytes(encoded[:256]).decode(errors="replace")
