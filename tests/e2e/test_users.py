"""Users of an instance on a running stack, by command line: made, let in by a standard client, cut."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.e2e.test_commands import RATES, answer, portico
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack


def _settings(bootstrap: str, user: dict[str, Any], password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user["name"],
        "sasl.password": password,
    }


def _is_in(settings: dict[str, Any]) -> bool:
    try:
        AdminClient(settings).list_topics(timeout=5)
    except KafkaException:
        return False
    return True


def test_a_user_is_made_let_in_given_another_password_and_deleted(stack: Stack, tmp_path: Path) -> None:
    ways = ("--listener", "plain", "--listener", "sasl_plaintext")
    made = answer(stack, "instance", "create", "with-users", *RATES, "--whitelist", "127.0.0.1/32", *ways)
    (bootstrap,) = [
        one["bootstrap_servers"] for one in made["endpoints"] if one["security_protocol"] == "sasl_plaintext"
    ]
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "t", "partitions": 1})
    user = answer(stack, "user", "create", "with-users", "app")
    wait_until(lambda: stack.api("GET", f"instances/{made['id']}/users")["items"][0]["applied"])
    drawn = _settings(bootstrap, user, user["password"])
    failures: list[Any] = []
    producer = Producer(drawn)
    producer.produce("t", b"v", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0 and not failures
    assert not _is_in(_settings(bootstrap, user, "another password"))

    file = tmp_path / "password"
    file.write_text("a password of my own\n")
    changed = answer(stack, "user", "password", "with-users", "app", "--password-file", str(file))
    assert changed["password"] is None
    wait_until(lambda: stack.api("GET", f"instances/{made['id']}/users")["items"][0]["applied"])
    assert _is_in(_settings(bootstrap, user, "a password of my own")) and not _is_in(drawn)
    closed = stack.api("GET", f"instances/{made['id']}/refusals")["closed"]
    wait_until(lambda: "user_changed" in stack.api("GET", f"instances/{made['id']}/refusals")["closed"])
    assert "authentication_failed" in closed

    shown = portico(stack, "user", "list", "with-users")
    assert shown.returncode == 0 and "app" in shown.stdout and "SCRAM-SHA-512" in shown.stdout
    assert portico(stack, "user", "delete", "with-users", "app").returncode == 0
    again = portico(stack, "user", "delete", "with-users", "app")
    assert again.returncode == 1 and "no user" in again.stderr
    plain = AdminClient({"bootstrap.servers": made["bootstrap_servers"]})
    assert "t" in plain.list_topics(timeout=30).topics, "who comes in otherwise notices nothing"


@pytest.mark.parametrize("text", ["", "\n", "short\n"])
def test_a_password_file_without_a_password_is_refused(stack: Stack, tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_text(text)
    stack.create_instance(f"users-{len(text)}")
    made = portico(stack, "user", "create", f"users-{len(text)}", "app", "--password-file", str(file))
    assert made.returncode in (1, 2) and "password" in made.stderr


ALLOW_APP = AclBinding(
    ResourceType.TOPIC,
    "t",
    ResourcePatternType.LITERAL,
    "User:app",
    "*",
    AclOperation.WRITE,
    AclPermissionType.ALLOW,
)
ALL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def _produced(settings: dict[str, Any]) -> KafkaError | None:
    came: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce("t", b"v", on_delivery=lambda error, _: came.append(error))
    assert producer.flush(60) == 0
    return came[0]


def test_acls_are_made_by_kafkas_client_and_by_command_on_one_store(stack: Stack) -> None:
    ways = ("--listener", "plain", "--listener", "sasl_plaintext")
    made = answer(stack, "instance", "create", "with-acls", *RATES, "--whitelist", "127.0.0.1/32", *ways)
    other = stack.create_instance("without-acls")
    (bootstrap,) = [
        one["bootstrap_servers"] for one in made["endpoints"] if one["security_protocol"] == "sasl_plaintext"
    ]
    stack.api("POST", f"instances/{made['id']}/topics", {"name": "t", "partitions": 1})
    plain = AdminClient({"bootstrap.servers": made["bootstrap_servers"]})
    with pytest.raises(KafkaException) as disabled:
        plain.create_acls([ALLOW_APP])[ALLOW_APP].result(60)
    assert disabled.value.args[0].code() == KafkaError.SECURITY_DISABLED
    root = answer(stack, "user", "create", "with-acls", "root", "--superuser")
    app = answer(stack, "user", "create", "with-acls", "app")
    wait_until(
        lambda: all(one["applied"] for one in stack.api("GET", f"instances/{made['id']}/users")["items"])
    )
    admin = AdminClient(_settings(bootstrap, root, root["password"]))
    as_app = _settings(bootstrap, app, app["password"])

    # another password, by Kafka's own request
    sha_512 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    chosen = UserScramCredentialUpsertion("app", sha_512, b"chosen by kafka")
    admin.alter_user_scram_credentials([chosen])["app"].result(60)
    told = admin.describe_user_scram_credentials(["app"])["app"].result(60)
    assert {one.mechanism: one.iterations for one in told.scram_credential_infos} == {
        ScramMechanism.SCRAM_SHA_256: 4096,
        ScramMechanism.SCRAM_SHA_512: 8192,
    }
    wait_until(
        lambda: all(one["applied"] for one in stack.api("GET", f"instances/{made['id']}/users")["items"])
    )
    assert _is_in({**as_app, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "chosen by kafka"})
    nobody = AdminClient(as_app)
    with pytest.raises(KafkaException) as refused:
        nobody.alter_user_scram_credentials([chosen])["app"].result(60)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED

    admin.create_acls([ALLOW_APP])[ALLOW_APP].result(60)
    (shown,) = answer(stack, "acl", "list", "with-acls")["items"]
    assert (shown["principal"], shown["operation"], shown["resource_name"]) == ("User:app", "write", "t")
    assert list(admin.describe_acls(ALL).result(60)) == [ALLOW_APP]
    with pytest.raises(KafkaException) as refused:
        plain.create_acls([ALLOW_APP])[ALLOW_APP].result(60)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert "t" in plain.list_topics(timeout=60).topics, "the first ACL cuts nobody"

    assert answer(stack, "acl", "enforce", "with-acls", "--yes")["enforced"]
    wait_until(lambda: "t" not in plain.list_topics(timeout=60).topics)
    wait_until(lambda: stack.api("GET", f"instances/{made['id']}/acls")["applied"])
    assert _produced(as_app) is None
    assert list(admin.delete_acls([ALL])[ALL].result(60)) == [ALLOW_APP]
    wait_until(lambda: stack.api("GET", f"instances/{made['id']}/acls")["applied"])
    error = _produced(as_app)
    assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert answer(stack, "acl", "list", "with-acls")["items"] == []

    granted = ("--user", "app", "--topic", "t", "--operation", "all")
    assert len(answer(stack, "acl", "create", "with-acls", *granted)["items"]) == 1
    wait_until(lambda: _produced(as_app) is None)
    assert len(answer(stack, "acl", "delete", "with-acls", "--user", "app", "--yes")) == 1
    assert not answer(stack, "acl", "relax", "with-acls", "--yes")["enforced"]
    wait_until(lambda: "t" in plain.list_topics(timeout=60).topics)
    assert stack.api("GET", f"instances/{other['id']}/acls")["items"] == []
