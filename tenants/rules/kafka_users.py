"""Users of one instance, whom its clients log in as: names, passwords, how many. Pure."""

import re
from collections.abc import Iterable
from typing import Final

from contracts.users import PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, KafkaUser, SecurityProtocol
from tenants.rules.errors import Conflict, Exists, NotFound
from tenants.rules.lifecycle import Fault, name_fault

USERS_MAX: Final = 200
"""Users of one instance."""
_PASSWORD: Final = re.compile(r"[\x20-\x7e]*\Z")
"""Clients prepare other characters in ways of their own (SASLprep), or not at all."""


def user_faults(name: str, password: str | None) -> list[Fault]:
    """What is wrong with a user; a password of None is drawn."""
    fault = name_fault(name, "a user")
    return ([] if fault is None else [Fault("name", fault)]) + password_faults(password)


def password_faults(password: str | None) -> list[Fault]:
    """What is wrong with a password; None is drawn."""
    if password is None:
        return []
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX or not _PASSWORD.match(password):
        wanted = f"{PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} letters, digits and signs of ASCII"
        return [Fault("password", f"a password is {wanted}")]
    return []


def with_new(users: tuple[KafkaUser, ...], user: KafkaUser) -> tuple[KafkaUser, ...]:
    """Raises: Exists, Conflict where there are too many."""
    if any(one.name == user.name for one in users):
        raise Exists(f"there is a user '{user.name}' already: delete it, or give it another password")
    if len(users) >= USERS_MAX:
        raise Conflict(f"an instance has at most {USERS_MAX} users: delete some first")
    return tuple(sorted((*users, user), key=lambda one: one.name))


def with_changed(users: tuple[KafkaUser, ...], user: KafkaUser) -> tuple[KafkaUser, ...]:
    """Raises: NotFound."""
    return tuple(sorted((*without(users, user.name), user), key=lambda one: one.name))


def without(users: tuple[KafkaUser, ...], name: str) -> tuple[KafkaUser, ...]:
    """Raises: NotFound."""
    left = tuple(one for one in users if one.name != name)
    if len(left) == len(users):
        raise NotFound(f"there is no user '{name[:80]}'")
    return left


def protocol_faults(protocols: Iterable[SecurityProtocol], *, serves_tls: bool) -> list[Fault]:
    """What is wrong with ways of coming in that are ordered."""
    if serves_tls or not any(one.is_encrypted for one in protocols):
        return []
    sentence = "the gateways have no certificate: operators start them with --tls-cert and --tls-key"
    return [Fault("security_protocols", sentence)]


def ordered(protocols: list[SecurityProtocol]) -> tuple[SecurityProtocol, ...]:
    """Each of them once, the simplest first."""
    return tuple(one for one in SecurityProtocol if one in protocols)
