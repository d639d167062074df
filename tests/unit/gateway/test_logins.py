"""Who may log in at an instance: a name that is not there looks like others, and tries are counted."""

import pytest

from contracts.users import SCRAM_MECHANISMS, KafkaUser, Mechanism, credential
from gateway.rules.logins import (
    WRONG_ANSWERED_MS_MAX,
    WRONG_MAX_PER_ADDRESS,
    WRONG_MAX_PER_PAIR,
    LoginFault,
    Logins,
    TooManyTries,
    plain_message,
)
from tests.unit.gateway.scram_client import ScramClient

HERE, THERE = "192.0.2.7", "192.0.2.8"


def user(name: str, password: str, salt: bytes = b"salt" * 4) -> KafkaUser:
    return KafkaUser(
        name=name, credentials=tuple(credential(one, password, salt) for one in SCRAM_MECHANISMS)
    )


def logins(*users: KafkaUser, secret: bytes = b"secret") -> Logins:
    made = Logins(secret, bytes, lambda: 0)
    made.take(users)
    return made


def test_a_password_is_right_or_wrong_and_a_name_that_is_not_there_is_a_wrong_one() -> None:
    found = logins(user("app", "right-password"))
    for _ in range(2):  # the second time it is remembered
        assert found.check_password("app", "right-password").user == "app"
    for name, password in (("app", "wrong"), ("nobody", "right-password"), ("app", "")):
        with pytest.raises(LoginFault, match="wrong password"):
            found.check_password(name, password)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_name_that_is_not_there_has_the_same_salt_on_every_worker(mechanism: Mechanism) -> None:
    one, other = logins(), logins(user("app", "right-password"))
    unknown = one.credential_of(mechanism, "nobody")
    known = other.credential_of(mechanism, "app")
    assert other.credential_of(mechanism, "nobody").salt == unknown.salt
    assert logins(secret=b"another").credential_of(mechanism, "nobody").salt != unknown.salt
    assert one.credential_of(mechanism, "other").salt != unknown.salt
    for field in ("salt", "stored_key", "server_key"):
        assert len(getattr(unknown, field)) == len(getattr(known, field))
    assert unknown.iterations == known.iterations


def test_a_user_with_another_password_is_another() -> None:
    found = logins(user("app", "right-password"), user("other", "right-password"))
    app, other = (found.check_password(name, "right-password") for name in ("app", "other"))
    assert found.holds(app) and found.holds(other)
    found.take([user("app", "another-password", b"tlas" * 4), user("other", "right-password")])
    assert not found.holds(app) and found.holds(other)
    with pytest.raises(LoginFault):
        found.check_password("app", "right-password")
    found.take([])
    assert not found.holds(other)
    with pytest.raises(LoginFault):
        found.check_password("other", "right-password")


def test_a_user_that_changes_during_an_exchange_is_not_let_in() -> None:
    found = logins(user("app", "right-password"))
    exchange, client = found.scram(Mechanism.SCRAM_SHA_256), ScramClient("sha256", "app", "right-password")
    said = exchange.first(client.first())
    found.take([user("app", "another-password", b"tlas" * 4)])
    exchange.final(client.final(said))
    with pytest.raises(LoginFault, match="changed"):
        found.scram_result(exchange)


def test_wrong_passwords_are_counted_for_the_user_and_for_the_address() -> None:
    found = logins()
    for _ in range(WRONG_MAX_PER_PAIR):
        found.check_may_try(HERE, "app", 0)
        found.wrong(HERE, "app", 0)
    with pytest.raises(TooManyTries):
        found.check_may_try(HERE, "app", 59_999)
    found.check_may_try(HERE, "other", 0)
    found.check_may_try(THERE, "app", 0)
    found.check_may_try(HERE, "app", 60_000)
    for number in range(WRONG_MAX_PER_ADDRESS):
        found.wrong(HERE, f"user-{number}" * 100, 60_000)
    with pytest.raises(TooManyTries):
        found.check_may_try(HERE, "app", 60_000)
    found.check_may_try(THERE, "app", 60_000)


def test_who_is_wrong_again_and_again_waits_ever_longer_for_the_answer() -> None:
    found = logins()
    waits = [found.wrong(HERE, "app", 0) for _ in range(12)]
    assert waits[:4] == [100, 200, 400, 800] and waits[-1] == WRONG_ANSWERED_MS_MAX
    assert found.wrong(HERE, "other", 0) == found.wrong(THERE, "app", 0) == 100
    found.right(HERE, "app")
    assert found.wrong(HERE, "app", 0) == 100
    assert found.wrong(THERE, "app", 60_001) == 100


def test_addresses_of_one_customer_of_a_network_are_one() -> None:
    found = logins()
    for number in range(WRONG_MAX_PER_PAIR):
        found.wrong(f"2001:db8::{number:x}", "app", 0)
    with pytest.raises(TooManyTries):
        found.check_may_try("2001:db8::ffff", "app", 0)
    found.check_may_try("2001:db8:0:1::1", "app", 0)


@pytest.mark.parametrize(
    "message", [b"", b"a", b"a\0b", b"\0a\0", b"\0\0b", b"x\0a\0b", b"\0a\0b\0", b"\xff\0a\0b", b"\0\0"]
)
def test_a_message_of_plain_that_is_none(message: bytes) -> None:
    with pytest.raises(LoginFault):
        plain_message(message)


def test_a_message_of_plain() -> None:
    assert plain_message(b"\0app\0p w") == ("app", "p w") == plain_message(b"app\0app\0p w")
