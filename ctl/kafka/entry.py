"""The second listener of an Apache Kafka of ours: what it asks of who comes in, and the files that answer it.

The first one stays, plaintext and without a login: brokers speak to each other there, and `portico kafka`
asks there whether they serve.
"""

import datetime
import ipaddress
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from contracts.upstream import CA_FILE, CERTIFICATE_FILE, KEY_FILE, MECHANISMS, PASSWORD_FILE
from contracts.users import Mechanism
from ctl.errors import CommandError, usage
from runtime.process import write_file

LISTENER: Final = "SECURED"
USER: Final = "portico"
_BROKER_FILE: Final = "broker.pem"
_DAYS: Final = 3650
_ITERATIONS: Final = 4096
_TIMEOUT_S: Final = 60.0
_LOGIN_MODULES: Final = "org.apache.kafka.common.security"


class Entry(NamedTuple):
    """What the second listener asks for; there is none while that is nothing."""

    tls: bool = False
    mechanism: Mechanism | None = None

    @property
    def protocol(self) -> str:
        """Kafka's word for it."""
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")

    def __bool__(self) -> bool:
        return self.tls or self.mechanism is not None


def mechanism_of(text: str) -> Mechanism:
    """One of those that we can log in by. Raises: CommandError."""
    if text not in MECHANISMS:
        raise usage(f"--sasl: '{text}' is not one of {', '.join(MECHANISMS)}")
    return Mechanism(text)


def ensure_files(folder: Path, entry: Entry) -> None:
    """Certificates and a password, made where they are not there; their owner alone may read them."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if entry.mechanism is not None and not (folder / PASSWORD_FILE).exists():
        write_file(folder / PASSWORD_FILE, f"{secrets.token_urlsafe(24)}\n".encode())
    if entry.tls and not (folder / _BROKER_FILE).exists():
        _write_certificates(folder)


def listener_settings(entry: Entry, folder: Path, seen_from: str) -> dict[str, str]:
    """What a node's server.properties say of the listener. Units: `seen_from` is the folder as the node, in
    its own directory, names it."""
    prefix = f"listener.name.{LISTENER.lower()}."
    settings: dict[str, str] = {}
    if entry.tls:
        settings = {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": f"{seen_from}/{_BROKER_FILE}",
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": f"{seen_from}/{CA_FILE}",
            f"{prefix}ssl.client.auth": "requested",
        }
    if entry.mechanism is not None:
        settings[f"{prefix}sasl.enabled.mechanisms"] = entry.mechanism.value
        settings[f"{prefix}{entry.mechanism.value.lower()}.sasl.jaas.config"] = _login_module(entry, folder)
    return settings


def add_user(bootstrap: str, entry: Entry, folder: Path) -> None:
    """Have the cluster know the user of SCRAM, by its first listener. Raises: CommandError."""
    if entry.mechanism in (None, Mechanism.PLAIN):
        return
    kind = {
        Mechanism.SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
        Mechanism.SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
    }[entry.mechanism]
    info = ScramCredentialInfo(kind, _ITERATIONS)
    change = UserScramCredentialUpsertion(USER, info, _password(folder).encode())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.alter_user_scram_credentials([change])[USER].result(_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise CommandError(f"Apache Kafka does not take user {USER}: {error}") from error


def client_arguments(entry: Entry, folder: Path) -> str:
    """What `portico cluster add` is told."""
    words = ["--tls-ca", str(folder / CA_FILE)] if entry.tls else []
    if entry.mechanism is not None:
        words += ["--sasl", entry.mechanism.value, "--user", USER]
        words += ["--password-file", str(folder / PASSWORD_FILE)]
    return " ".join(words)


def _login_module(entry: Entry, folder: Path) -> str:
    if entry.mechanism is Mechanism.PLAIN:
        return f'{_LOGIN_MODULES}.plain.PlainLoginModule required user_{USER}="{_password(folder)}";'
    return f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"


def _password(folder: Path) -> str:
    return (folder / PASSWORD_FILE).read_text().strip()


def _write_certificates(folder: Path) -> None:
    """An authority whose key is kept nowhere, the brokers' certificate and a client's."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Portico's Apache Kafka")
    authority = (
        _begun(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    addresses = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    )
    broker_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    broker = (
        _begun(name, _name("broker"), broker_key.public_key())
        .add_extension(addresses, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    client = (
        _begun(name, _name(USER), client_key.public_key())
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_file(folder / CA_FILE, authority.public_bytes(Encoding.PEM))
    write_file(folder / CERTIFICATE_FILE, client.public_bytes(Encoding.PEM))
    write_file(folder / KEY_FILE, _pem(client_key))
    write_file(folder / _BROKER_FILE, _pem(broker_key) + broker.public_bytes(Encoding.PEM))


def _begun(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
