"""Users of the instance by Kafka's own requests: who may, what is taken, and that a login works by it."""

from hashlib import pbkdf2_hmac
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.access_orders import AccessAnswer, UserMechanism
from contracts.users import ITERATIONS, ITERATIONS_MAX, KafkaUser, Mechanism, credential
from gateway.rules.logins import Logins
from tests.unit.gateway.test_acl_requests import Client
from wire.api_table import ApiKey

DESCRIBE, ALTER = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS
SALT = b"s" * 20
SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
USERS = (
    KafkaUser(name="root", credentials=(credential(SHA_256, "a password", SALT),), superuser=True),
    KafkaUser(name="app", credentials=(credential(SHA_256, "p", SALT), credential(SHA_512, "p", SALT, 8192))),
)


def _client(user: str = "root") -> Client:
    return Client(enforced=False, users=USERS, user=user)


def _new(name: str = "new", **changes: Any) -> dict[str, Any]:
    salted = pbkdf2_hmac("sha512", b"chosen", SALT, 5000)
    made = {"name": name, "mechanism": 2, "iterations": 5000, "salt": SALT, "salted_password": salted}
    return made | changes


def test_credentials_are_described_without_what_they_check_by() -> None:
    answer = _client().call(DESCRIBE, 0, users=None)
    told = {
        one.user: [(each.mechanism, each.iterations) for each in one.credential_infos]
        for one in answer.results
    }
    assert told == {"root": [(1, ITERATIONS)], "app": [(1, ITERATIONS), (2, 8192)]}
    answer = _client().call(DESCRIBE, 0, users=[{"name": one} for one in ("app", "no", "root", "root")])
    assert {one.user: one.error_code for one in answer.results} == {
        "app": ErrorCode.none,
        "no": ErrorCode.resource_not_found,
        "root": ErrorCode.duplicate_resource,
    }


@pytest.mark.parametrize("user", ["app", ""])
def test_only_superusers_see_and_change_users(user: str) -> None:
    client = _client(user)
    answer = client.call(DESCRIBE, 0, users=None)
    assert answer.error_code is ErrorCode.cluster_authorization_failed and answer.results == ()
    deletion = {"name": "root", "mechanism": 1}
    answer = client.call(ALTER, 0, deletions=[deletion], upsertions=[_new()])
    assert [(one.user, one.error_code) for one in answer.results] == [
        ("root", ErrorCode.cluster_authorization_failed),
        ("new", ErrorCode.cluster_authorization_failed),
    ]
    assert not client.host.around.access_orders


def test_what_is_kept_is_what_a_password_is_checked_by() -> None:
    client = _client()
    asked = {"deletions": [{"name": "app", "mechanism": 2}], "upsertions": [_new()]}
    answer = client.call(ALTER, 0, **asked)
    assert {one.user: one.error_code for one in answer.results} == {
        "app": ErrorCode.none,
        "new": ErrorCode.none,
    }
    (order,) = client.host.around.access_orders
    assert order.forgotten == (UserMechanism("app", SHA_512),) and order.principal == "User:root"
    (new,) = order.credentials
    assert new.name == "new" and new.credential == credential(SHA_512, "chosen", SALT, 5000)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mechanism": 0}, ErrorCode.unsupported_sasl_mechanism),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism),
        ({"iterations": ITERATIONS - 1}, ErrorCode.unacceptable_credential),
        ({"iterations": ITERATIONS_MAX + 1}, ErrorCode.unacceptable_credential),
        ({"iterations": -1}, ErrorCode.unacceptable_credential),
        ({"salt": b""}, ErrorCode.unacceptable_credential),
        ({"salt": b"s" * 129}, ErrorCode.unacceptable_credential),
        ({"salted_password": b"x" * 32}, ErrorCode.unacceptable_credential),
        ({"mechanism": 1}, ErrorCode.unacceptable_credential),
    ],
)
def test_what_is_wrong_is_refused_by_its_user(changes: dict[str, Any], error: ErrorCode) -> None:
    client = _client()
    answer = client.call(ALTER, 0, deletions=[], upsertions=[_new("bad", **changes), _new("good")])
    assert {one.user: one.error_code for one in answer.results} == {"bad": error, "good": ErrorCode.none}
    (order,) = client.host.around.access_orders
    assert [one.name for one in order.credentials] == ["good"]


def test_twice_the_same_and_what_is_not_there_is_refused() -> None:
    client = _client()
    deletions = [{"name": "app", "mechanism": 1}, {"name": "root", "mechanism": 2}]
    answer = client.call(ALTER, 0, deletions=deletions, upsertions=[_new("twin"), _new("twin")])
    assert {one.user: one.error_code for one in answer.results} == {
        "app": ErrorCode.none,
        "root": ErrorCode.resource_not_found,
        "twin": ErrorCode.duplicate_resource,
    }


def test_what_the_control_plane_refuses_is_told_to_each() -> None:
    client = _client()
    client.host.around.access_answer = AccessAnswer(refusal="too many users")
    answer = client.call(ALTER, 0, deletions=[], upsertions=[_new(), _new("bad", iterations=1)])
    assert {one.user: one.error_code for one in answer.results} == {
        "new": ErrorCode.policy_violation,
        "bad": ErrorCode.unacceptable_credential,
    }


def test_a_name_that_is_not_there_has_iterations_that_others_have() -> None:
    logins = Logins(b"secret", bytes, lambda: 0)
    used = (4096, 4096, 8192, 16_384)
    users = [
        KafkaUser(name=f"u{number}", credentials=(credential(SHA_256, "p", SALT, iterations),))
        for number, iterations in enumerate(used)
    ]
    assert logins.credential_of(SHA_256, "nobody").iterations == ITERATIONS
    logins.take(users)
    told = [logins.credential_of(SHA_256, f"nobody{number}").iterations for number in range(200)]
    assert set(told) == set(used), "one number for all of them would tell them from users"
    again = [logins.credential_of(SHA_256, f"nobody{number}").iterations for number in range(200)]
    assert told == again
