"""A cluster that asks for TLS and a login, and has ACLs, beside a stack's own brokers: its whole life.

The user has what docs/backends.md says it needs, and no more.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ctl.bench.apache_kafka import KafkaBroker, kafka_cluster
from ctl.kafka.cluster import Wish
from tests.integration.apache.conftest import FEW
from tests.integration.apache.test_backend import admin_of, consumed, produced, until
from tests.integration.stack import ROOT, Stack, running_stack

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]
GUARDED = FEW | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever comes by the first listener
}
NEEDED = (
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER_CONFIGS),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE),
)
VALUES = {b"%d" % number for number in range(100)}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Its one broker."""
    directory = tmp_path_factory.mktemp("far")
    wish = Wish(1, tls=True, sasl="SCRAM-SHA-512")
    with kafka_cluster(directory, wish, settings=GUARDED, heap="512m") as [broker]:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        acls = [AclBinding(kind, name, literal, "User:portico", "*", do, allow) for kind, name, do in NEEDED]
        for done in admin.create_acls(acls).values():
            done.result(60)
        yield broker


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a broker of its own."""
    directory = tmp_path_factory.mktemp("beside") / "data"
    with running_stack(directory, "--deletion-grace", "0", "--workers", "1") as running:
        yield running


def cluster(stack: Stack, *arguments: str) -> str:
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "cluster", *arguments]
    told = subprocess.run(
        [*command, "--data-dir", str(stack.data_dir)], cwd=ROOT, text=True, capture_output=True, timeout=120
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def added(stack: Stack, broker: KafkaBroker, authority: Path, password: Path) -> None:
    cluster(
        stack,
        *("add", "far", "--bootstrap", f"127.0.0.1:{broker.secured_port}", "--tls-ca", str(authority)),
        *("--sasl", "SCRAM-SHA-512", "--user", "portico", "--password-file", str(password)),
    )


def shown(stack: Stack) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {
        one["cluster_id"]: one for one in stack.api("GET", "brokers")["clusters"]
    }
    return found.get("far", {})


def trouble_of(stack: Stack, instance: dict[str, Any]) -> str | None:
    told: str | None = stack.api("GET", f"instances/{instance['id']}")["cluster_trouble"]
    return told


def is_well(stack: Stack) -> bool:
    return shown(stack)["brokers"] == 1 and shown(stack)["trouble"] is None


def used(instance: dict[str, Any], topic: str) -> None:
    admin = admin_of(instance)
    admin.create_topics([NewTopic(topic, 2)])[topic].result(60)
    produced(instance, topic, sorted(VALUES))
    assert set(consumed(instance, topic, f"readers of {topic}", len(VALUES))) == VALUES


def kept(stack: Stack) -> list[str]:
    return [one["id"] for one in stack.api("GET", "deleted-instances")["items"]]


def answers(instance: dict[str, Any]) -> bool:
    try:
        return bool(admin_of(instance).list_topics(timeout=5).topics)
    except KafkaException:
        return False


def test_its_life_beside_a_cluster_of_our_own(beside: Stack, far: KafkaBroker, tmp_path: Path) -> None:
    credentials = far.directory.parent / "credentials"
    authority, password = credentials / "ca.pem", credentials / "password"
    added(beside, far, authority, password)
    until(lambda: is_well(beside), "it is not met")
    there = beside.create_instance("there", cluster="far")
    here = beside.create_instance("here", cluster="builtin-1")
    for instance in (there, here):
        used(instance, "first")
    listed = json.loads(cluster(beside, "topic", "list", "--cluster-name", "far", "--json"))
    assert {f"{there['id']}.first", f"{here['id']}.first"} & {one["topic"] for one in listed} == {
        f"{there['id']}.first"
    }
    assert not any("client quotas" in lack for lack in shown(beside)["lacks"]), "its quotas can be set"

    impostor = tmp_path / "password"
    impostor.write_text("somebody else's\n")
    others = ROOT / "tests" / "certificates" / "others.pem"
    for ca, secret, says, told in (
        (authority, impostor, "refuses the login of user portico", "refuse the platform's login"),
        (others, password, "its certificate is not trusted", "do not agree on TLS"),
    ):
        added(beside, far, ca, secret)
        until(lambda says=says: says in (shown(beside)["trouble"] or ""), f"nobody tells: {says}")
        assert told in str(trouble_of(beside, there)) and trouble_of(beside, here) is None
        assert not answers(there)
        assert answers(here)
        added(beside, far, authority, password)
        until(lambda: is_well(beside), "it stays refused")
        until(lambda: answers(there), "its instance is not back")

    far.stop()
    until(lambda: "cannot be reached" in (shown(beside)["trouble"] or ""), "nobody tells of its end")
    assert trouble_of(beside, there) == "its brokers give no answer"
    assert answers(here)
    far.start()
    far.until_serving()
    until(lambda: is_well(beside), "it is not back")
    assert set(consumed(there, "first", "later readers", len(VALUES))) == VALUES

    cluster(beside, "drain", "far")
    elsewhere = beside.create_instance("elsewhere")
    used(elsewhere, "first")
    used(there, "second")
    direct = AdminClient({"bootstrap.servers": f"127.0.0.1:{far.port}"})
    names = {f"{there['id']}.first", f"{there['id']}.second"}
    assert {name for name in direct.list_topics(timeout=60).topics if not name.startswith("__")} == names
    cluster(beside, "undrain", "far")
    beside.api("DELETE", "clusters/far", expect=409)
    beside.api("DELETE", f"instances/{there['id']}")
    until(lambda: there["id"] not in kept(beside), "the purge does not end")
    cluster(beside, "remove", "far", "--yes")
    assert not shown(beside)
    assert not (beside.data_dir / "credentials" / "far" / "password").exists()
    used(here, "second")
