"""Users of one instance, whom its clients log in as: names, passwords, how many. Pure."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from contracts.access_orders import UserCredential, UserMechanism
from contracts.users import PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, KafkaUser, SecurityProtocol
from tenants.rules.errors import Conflict, Exists, Invalid, NotFound
from tenants.rules.lifecycle import Fault, name_fault, unfit

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
    """Credentials are exchanged, nothing else of the user is. Raises: NotFound."""
    before = _named(users, user.name)
    changed = msgspec.structs.replace(before, credentials=user.credentials)
    return tuple(changed if one is before else one for one in users)


def with_superuser(users: tuple[KafkaUser, ...], name: str, superuser: bool) -> tuple[KafkaUser, ...]:
    """Raises: NotFound."""
    before = _named(users, name)
    changed = msgspec.structs.replace(before, superuser=superuser)
    return tuple(changed if one is before else one for one in users)


def _named(users: tuple[KafkaUser, ...], name: str) -> KafkaUser:
    found = next((one for one in users if one.name == name), None)
    if found is None:
        raise NotFound(f"there is no user '{name[:80]}'")
    return found


def without(users: tuple[KafkaUser, ...], name: str) -> tuple[KafkaUser, ...]:
    """Raises: NotFound."""
    gone = _named(users, name)
    return tuple(one for one in users if one is not gone)


def with_credentials(
    users: tuple[KafkaUser, ...], given: Iterable[UserCredential], forgotten: Iterable[UserMechanism]
) -> tuple[KafkaUser, ...]:
    """What Kafka's own tools change: passwords by mechanism. Raises: NotFound, Conflict, Invalid."""
    for gone in forgotten:
        user = _named(users, gone.name)
        left = tuple(one for one in user.credentials if one.mechanism is not gone.mechanism)
        if len(left) == len(user.credentials):
            raise NotFound(f"user '{gone.name}' has no {gone.mechanism} password")
        changed = KafkaUser(name=gone.name, credentials=left)
        users = with_changed(users, changed) if left else without(users, gone.name)
    for new in given:
        fault = name_fault(new.name, "a user")
        if fault is not None:
            raise Invalid([Fault("name", fault)])
        before = next((one for one in users if one.name == new.name), None)
        if before is None:
            users = with_new(users, KafkaUser(name=new.name, credentials=(new.credential,)))
            continue
        kept = [one for one in before.credentials if one.mechanism is not new.credential.mechanism]
        both = sorted((*kept, new.credential), key=lambda one: one.mechanism)
        users = with_changed(users, KafkaUser(name=new.name, credentials=tuple(both)))
    return users


def protocol_faults(protocols: Iterable[SecurityProtocol], *, serves_tls: bool) -> list[Fault]:
    """What is wrong with ways of coming in that are ordered."""
    if serves_tls or not any(one.is_encrypted for one in protocols):
        return []
    sentence = "the gateways have no certificate: operators start them with --tls-cert and --tls-key"
    return [unfit("security_protocols", sentence)]


def ordered(protocols: list[SecurityProtocol]) -> tuple[SecurityProtocol, ...]:
    """Each of them once, the simplest first."""
    return tuple(one for one in SecurityProtocol if one in protocols)
