"""Instance ids and the mapping between a tenant's names and physical names (design: Names).

A physical name is `<instance id>.<name>`. The id has a fixed length, so adding and stripping need no
table, and no tenant can forge a separator.
"""

from typing import Final

from contracts.shapes import matching

ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH: Final = 12
SCOPE_LENGTH: Final = ID_LENGTH + 1
"""Characters (and bytes: all are ASCII) that a scope adds in front of a tenant's name."""

SYSTEM_INSTANCE_ID: Final = "i00000000000"
"""Owns Portico's own topics, such as `usage`; outside the alphabet, so never drawn for a tenant."""

TOPIC_NAME_BYTES_MAX: Final = 249 - SCOPE_LENGTH

ID_SHAPE: Final = r"^i([a-z2-7]{11}|0{11})$"
"""What an instance id looks like, that of the system instance included."""
TOPIC_SHAPE: Final = rf"^[a-zA-Z0-9._-]{{1,{TOPIC_NAME_BYTES_MAX}}}$"
"""What a topic's name looks like, of those that are none but `.` and `..`."""
_ID: Final = matching(ID_SHAPE)
_TOPIC: Final = matching(TOPIC_SHAPE)


def is_instance_id(text: str) -> bool:
    """Whether `text` has the form of an instance id (the system instance included)."""
    return _ID.match(text) is not None


def physical_name(instance_id: str, name: str) -> str:
    """The name a backend knows a tenant's topic, group or transactional id by."""
    assert len(instance_id) == ID_LENGTH, instance_id
    return f"{instance_id}.{name}"


def client_id_at(instance_id: str, node_id: int) -> str:
    """What an instance's Produce and Fetch requests are known by at a broker that is not ours: its client
    quotas go by that."""
    return f"{instance_id}@{node_id}"


def owner_of(physical: str) -> str | None:
    """The instance a physical name belongs to, or None for names of the backend itself."""
    if len(physical) < SCOPE_LENGTH or physical[ID_LENGTH] != ".":
        return None
    instance_id = physical[:ID_LENGTH]
    return instance_id if is_instance_id(instance_id) else None


def tenant_name(instance_id: str, physical: str) -> str | None:
    """The tenant's own name of a physical name, or None when it is not this instance's."""
    if physical.startswith(instance_id) and physical[ID_LENGTH : ID_LENGTH + 1] == ".":
        return physical[SCOPE_LENGTH:]
    return None


def topic_name_fault(name: str) -> str | None:
    """Why a tenant's topic name is illegal, in one sentence, or None. Kafka's rules, before mapping."""
    if name == "":
        return "the topic name is empty"
    if name in (".", ".."):
        return f"the topic name must not be '{name}'"
    if len(name) > TOPIC_NAME_BYTES_MAX:
        return f"the topic name has {len(name)} characters, at most {TOPIC_NAME_BYTES_MAX} are allowed"
    if _TOPIC.match(name) is None:
        return "the topic name has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
