"""Users of an instance on a running stack, by command line: made, let in by a standard client, cut."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

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
