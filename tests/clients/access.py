"""What users and certificates may do: asked of a client at our door and at an Apache Kafka's.

The control is an Apache Kafka with its own StandardAuthorizer, SCRAM users and the same certificates.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from contracts.upstream import CA_FILE
from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from ctl.kafka.entry import LISTENER
from tests.clients import contract
from tests.clients.contract import PARTITIONS, Answer, Connection, Sasl, Step
from tests.clients.places import (
    AUTHORITY,
    BY_CERTIFICATE,
    CERTIFICATES,
    FEW,
    PASSWORD,
    SCRAM,
    TLS,
    USER,
    Place,
    wait_for_users,
)
from tests.integration.broker.fake_control import wait_until

ROOT_USER: Final = "root"
TOPICS: Final = ("orders", "secret", "seen", "begins-so", "denied", "kept")
_TIMEOUT_S: Final = 60
_COUNT: Final = 4
_WHOLE, _BEGIN = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
RULES: Final = (
    (_TOPIC, "orders", _WHOLE, AclOperation.WRITE, _ALLOW),
    (_TOPIC, "orders", _WHOLE, AclOperation.READ, _ALLOW),
    (_TOPIC, "kept", _WHOLE, AclOperation.DESCRIBE_CONFIGS, _ALLOW),
    (_TOPIC, "seen", _WHOLE, AclOperation.DESCRIBE, _ALLOW),
    (_TOPIC, "begins-", _BEGIN, AclOperation.WRITE, _ALLOW),
    (_TOPIC, "denied", _WHOLE, AclOperation.ALL, _ALLOW),
    (_TOPIC, "denied", _WHOLE, AclOperation.WRITE, _DENY),
    (_GROUP, "readers", _BEGIN, AclOperation.READ, _ALLOW),
    (ResourceType.TRANSACTIONAL_ID, "ids-", _BEGIN, AclOperation.WRITE, _ALLOW),
)
"""What the user may do: nothing else."""


class Doors(NamedTuple):
    """How one cluster is entered: by password, by certificate; the administrator may do everything."""

    by_password: Connection
    by_certificate: Connection
    administrator: AdminClient

    def who(self, name: str) -> Connection:
        """The user, somebody who guesses the password, the superuser, the one with a certificate."""
        if name == "certificate":
            return self.by_certificate
        user, password = {
            "user": (USER, PASSWORD),
            "guess": (USER, "another password"),
            "root": (ROOT_USER, PASSWORD),
        }[name]
        return self.by_password._replace(sasl=Sasl(SCRAM, user, password))


def cases(client: str) -> dict[str, tuple[str, Step]]:
    """Who does what, by a sentence for people, in order: what comes later may rest on what came before."""
    write = f"by-{client}"

    def produced(topic: str) -> Step:
        return contract.produce(topic, "none", write, _COUNT)

    def transacted(transactional_id: str, topic: str) -> Step:
        return contract.transaction(topic, transactional_id, write, _COUNT, "commit")

    return {
        "produce, allowed": ("user", produced("orders")),
        "produce, not allowed": ("user", produced("secret")),
        "produce, only describe is": ("user", produced("seen")),
        "produce, its beginning is": ("user", produced("begins-so")),
        "produce, allowed and denied": ("user", produced("denied")),
        "produce, no such topic": ("user", produced("nowhere")),
        "consume, allowed": ("user", contract.consume("orders", f"readers-{client}", _COUNT)),
        "consume, not the group": ("user", contract.consume("orders", f"strangers-{client}", _COUNT)),
        "consume, not the topic": ("user", contract.consume("secret", f"readers-{client}-too", _COUNT)),
        "transaction, allowed": ("user", transacted(f"ids-{client}", "orders")),
        "transaction, not its id": ("user", transacted(f"others-{client}", "orders")),
        "transaction, not the topic": ("user", transacted(f"ids-{client}-too", "secret")),
        "create a topic": ("user", contract.create(f"made-by-{client}", {})),
        "delete a topic": ("user", contract.delete("orders")),
        "describe, not allowed": ("user", contract.describe("secret")),
        "describe, no such topic": ("user", contract.describe("nowhere")),
        "describe configs, allowed": ("user", contract.describe_configs("kept", ["retention.ms"])),
        "describe configs, not allowed": ("user", contract.describe_configs("orders", ["retention.ms"])),
        "alter configs": ("user", contract.alter_configs("kept", {"retention.ms": "7200000"})),
        "create an ACL": ("user", _granted(f"given-to-{client}")),
        "with a wrong password": ("guess", contract.describe("orders")),
        "by certificate, allowed": ("certificate", produced("orders")),
        "by certificate, not allowed": ("certificate", produced("secret")),
        "create an ACL, as superuser": ("root", _granted(f"given-to-{client}")),
        "produce, allowed by that ACL": ("granted", produced(f"given-to-{client}")),
    }


def _granted(topic: str) -> Step:
    return contract.create_acl("TOPIC", topic, f"User:{USER}", "WRITE")


def told(answer: Answer) -> str:
    """In a word: `done`, or the error's name."""
    return "done" if answer.is_done else answer.error or f"lacks {answer.lacks}"


def prepare(administrator: AdminClient, topics: tuple[str, ...]) -> None:
    """The topics and the rules, by Kafka's own requests on either side."""
    wanted = [NewTopic(one, PARTITIONS, config={"retention.ms": "3600000"}) for one in topics]
    for made in administrator.create_topics(wanted, operation_timeout=_TIMEOUT_S).values():
        made.result(_TIMEOUT_S)
    bindings = [
        AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, permission)
        for kind, name, pattern, operation, permission in RULES
    ]
    for done in administrator.create_acls(bindings).values():
        done.result(_TIMEOUT_S)


def ours(place: Place, name: str) -> Doors:
    """An instance that enforces ACLs."""
    made = place.stack.create_instance(name, security_protocols=["plain", "tls", "sasl_ssl"])
    at = {one["security_protocol"]: one["bootstrap_servers"] for one in made["endpoints"]}
    path = f"instances/{made['id']}"
    for user in (USER, ROOT_USER):
        body = {"name": user, "password": PASSWORD, "superuser": user == ROOT_USER}
        place.stack.api("POST", f"{path}/users", body)
    wait_for_users(place.stack, path)
    place.stack.api("PATCH", f"{path}/acls", {"enforced": True})
    wait_until(lambda: place.stack.api("GET", f"{path}/acls")["applied"])
    by_password = Connection(at["sasl_ssl"], TLS, Sasl(SCRAM, USER, PASSWORD))
    return Doors(by_password, Connection(at["tls"], BY_CERTIFICATE), _superuser(at["sasl_ssl"]))


def _superuser(bootstrap: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(AUTHORITY),
            "sasl.mechanism": SCRAM,
            "sasl.username": ROOT_USER,
            "sasl.password": PASSWORD,
        }
    )


def _settings(entry: Mapping[str, str]) -> dict[str, str]:
    return (
        FEW
        | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ROOT_USER}",
        }
        | entry
    )


@contextmanager
def _kafka(directory: Path, wish: Wish, **entry: str) -> Iterator[Any]:
    """One node with the certificates of these tests in the place of its own."""
    credentials = directory / "credentials"
    credentials.mkdir(parents=True)
    shutil.copy(AUTHORITY, credentials / CA_FILE)
    pair = [CERTIFICATES / f"gateway.{suffix}" for suffix in ("key", "pem")]
    (credentials / "broker.pem").write_text("".join(one.read_text() for one in pair))
    with kafka_cluster(directory, wish, settings=_settings(entry), heap="384m") as [node]:
        yield node


@contextmanager
def control(directory: Path) -> Iterator[tuple[Doors, AdminClient]]:
    """Two Apache Kafkas of one node: users come to the first, certificates to the second, whose administrator
    is the other result."""
    rules = {
        f"listener.name.{LISTENER.lower()}.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"
    }
    with (
        _kafka(directory / "users", Wish(1, tls=True, sasl=SCRAM)) as users,
        _kafka(directory / "certificates", Wish(1, tls=True), **rules) as certificates,
    ):
        first, second = (
            AdminClient({"bootstrap.servers": f"127.0.0.1:{one.port}"}) for one in (users, certificates)
        )
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for user in (USER, ROOT_USER):
            change = UserScramCredentialUpsertion(user, info, PASSWORD.encode())
            first.alter_user_scram_credentials([change])[user].result(_TIMEOUT_S)
        by_password = Connection(f"127.0.0.1:{users.secured_port}", TLS, Sasl(SCRAM, USER, PASSWORD))
        by_certificate = Connection(f"127.0.0.1:{certificates.secured_port}", BY_CERTIFICATE)
        yield Doors(by_password, by_certificate, first), second
