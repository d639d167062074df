"""Clients that log in by tokens on a running stack: by command line, with ACLs, and to the end of it."""

import json
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.test_commands import RATES, answer, portico
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack
from tests.unit.gateway.tokens import AUDIENCE, ISSUER, elliptic, key_set, rsa, token


def _settings(bootstrap: str, **claims: Any) -> dict[str, Any]:
    """Of a client whose tokens hold for five minutes, unless `claims` say otherwise."""
    key = claims.pop("key", rsa())

    def drawn(_config: str) -> tuple[str, float]:
        expires = claims.get("exp", int(time.time()) + 300)
        return token(key, **{"sub": "orders-app", **claims, "exp": expires}), time.time() + 300

    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": drawn,
    }


def _is_in(settings: dict[str, Any]) -> bool:
    admin = AdminClient(settings)
    admin.poll(0)
    try:
        admin.list_topics(timeout=5)
    except KafkaException:
        return False
    return True


def _produced(settings: dict[str, Any]) -> list[str]:
    """The errors of one message."""
    errors: list[str] = []
    producer = Producer(settings)
    producer.produce("t", b"v", on_delivery=lambda error, _: errors.append(error.name()) if error else None)
    assert producer.flush(60) == 0
    return errors


def test_clients_come_with_tokens_of_a_provider_and_are_who_those_name(stack: Stack, tmp_path: Path) -> None:
    ways = ("--listener", "plain", "--listener", "sasl_plaintext")
    made = answer(stack, "instance", "create", "with-tokens", *RATES, "--whitelist", "127.0.0.1/32", *ways)
    (bootstrap,) = [
        one["bootstrap_servers"] for one in made["endpoints"] if one["security_protocol"] == "sasl_plaintext"
    ]
    path = f"instances/{made['id']}"
    stack.api("POST", f"{path}/topics", {"name": "t", "partitions": 1})
    assert not _is_in(_settings(bootstrap)), "no provider is known"
    file = tmp_path / "jwks.json"
    file.write_text(key_set(rsa(), elliptic()))
    said = ("--issuer", ISSUER, "--audience", AUDIENCE, "--jwks-file", str(file))
    assert answer(stack, "oauth", "set", "with-tokens", *said)["keys"] == ["one", "two"]
    wait_until(lambda: stack.api("GET", f"{path}/oauth")["applied"])
    assert _produced(_settings(bootstrap)) == [] == _produced(_settings(bootstrap, key=elliptic()))
    for bad in ({"exp": int(time.time()) - 60}, {"aud": "others"}, {"key": rsa("stranger")}):
        assert not _is_in(_settings(bootstrap, **bad))
    assert "authentication_failed" in stack.api("GET", f"{path}/refusals")["closed"]

    answer(stack, "user", "create", "with-tokens", "root", "--superuser")
    stack.api("PATCH", f"{path}/acls", {"enforced": True})
    wait_until(lambda: _produced(_settings(bootstrap)) == ["TOPIC_AUTHORIZATION_FAILED"])
    allowed = {"resource_type": "topic", "pattern_type": "literal", "resource_name": "t"}
    allowed |= {"principal": "User:orders-app", "host": "*", "operation": "write", "permission": "allow"}
    stack.api("POST", f"{path}/acls", {"items": [allowed]})
    wait_until(lambda: not _produced(_settings(bootstrap)))
    assert _produced(_settings(bootstrap, sub="others")) == ["TOPIC_AUTHORIZATION_FAILED"]

    staying = Producer(_settings(bootstrap))
    staying.produce("t", b"v")
    assert staying.flush(60) == 0
    assert "orders-app" not in portico(stack, "oauth", "show", "with-tokens").stdout
    assert portico(stack, "oauth", "remove", "with-tokens", "--yes").returncode == 0
    wait_until(lambda: "user_changed" in stack.api("GET", f"{path}/refusals")["closed"])
    assert not _is_in(_settings(bootstrap))


def test_a_client_outlives_its_token_by_coming_with_the_next(stack: Stack, tmp_path: Path) -> None:
    """KIP-368: the connection stays, and the login is repeated."""
    made = answer(
        stack, "instance", "create", "tokens-again", *RATES, "--allow-all", "--listener", "sasl_plaintext"
    )
    bootstrap, path = made["bootstrap_servers"], f"instances/{made['id']}"
    stack.api("POST", f"{path}/topics", {"name": "t", "partitions": 1})
    body = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": json.loads(key_set(rsa())), "clock_skew_ms": 0}
    stack.api("PUT", f"{path}/oauth", body)
    wait_until(lambda: stack.api("GET", f"{path}/oauth")["applied"])
    drawn: list[int] = []

    def next_token(_config: str) -> tuple[str, float]:
        drawn.append(int(time.time()) + 4)
        return token(sub="app", exp=drawn[-1]), drawn[-1]

    failed: list[Any] = []
    producer = Producer(_settings(bootstrap) | {"oauth_cb": next_token})
    while len(drawn) < 4:
        producer.produce("t", b"v", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.2)
    assert producer.flush(60) == 0 and not failed
