"""Strings of a request that are not UTF-8, as Kafka's brokers read them: with replacement characters.

Java never fails to decode a string, so Kafka answers about such a name: it has U+FFFD in it, which no topic
may, and the answer is INVALID_TOPIC_EXCEPTION or UNKNOWN_TOPIC_OR_PARTITION. Here every byte that cannot be
read becomes U+FFFD and its two hex digits, so that two names stay two. Ids that stand for state (groups,
transactions) would be legal with any character; they become empty, which is refused in each API's own form.
"""

import codecs
from enum import Enum
from typing import Final

from kio.schema.types import GroupId, TopicName, TransactionalId

from wire.schema import Field

_ERRORS: Final = "portico_readable"
_CHARACTERS_MAX: Final = 8_000
"""Six bytes each at most would still be one of Kafka's strings."""


class Text(Enum):
    """What is done with a string that is not UTF-8."""

    SHOWN = "its unreadable bytes are written out"
    REFUSED_AS_EMPTY = "it becomes empty"


def _written_out(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"\ufffd{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_ERRORS, _written_out)


def readable(raw: bytes | memoryview) -> str:
    """The string, its unreadable bytes written out: another one for every name of a legal length."""
    return str(raw, "utf-8", _ERRORS)[:_CHARACTERS_MAX]


_IDS: Final = (GroupId, TransactionalId)
_SHOWN_NAMES: Final = frozenset(
    {
        "client_software_name",
        "client_software_version",
        "committed_metadata",
        "configuration_keys",
        "host",
        "host_filter",
        "member_id",
        "metadata",
        "name",
        "principal",
        "principal_filter",
        "rack_id",
        "reason",
        "resource_name",
        "resource_name_filter",
        "value",
    }
)
"""Fields that are looked up among what is there, or kept for people to read."""


def treatment_of(field: Field) -> Text | None:
    """What is done with a field of a request; None: the request is malformed."""
    if field.value_type in _IDS or field.name == "key":
        return Text.REFUSED_AS_EMPTY
    if field.value_type is TopicName or field.name in _SHOWN_NAMES:
        return Text.SHOWN
    return None
