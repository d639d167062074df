"""Users of an instance: ways of coming in that ask for a login, and what is kept of passwords.

A password is never kept, only what SCRAM (RFC 5802) checks it by: whoever reads that cannot log in with it,
but may try passwords against it at the cost of `iterations` each.
"""

import hmac
from enum import StrEnum
from hashlib import new, pbkdf2_hmac
from typing import Final

import msgspec


class SecurityProtocol(StrEnum):
    """How clients come in at a vip:vport. Each has vports of its own."""

    PLAIN = "plain"
    """The whitelist alone decides: Kafka's PLAINTEXT."""
    SASL_PLAINTEXT = "sasl_plaintext"
    """A user and password beside the whitelist; nothing is encrypted."""
    TLS = "tls"
    """Encrypted: Kafka's SSL. Where gateways know a CA for it, a user's certificate instead of a password."""
    SASL_SSL = "sasl_ssl"
    """Encrypted, with a user and password."""

    @property
    def asks_for_login(self) -> bool:
        """Whether clients have to say who they are first."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self in (SecurityProtocol.TLS, SecurityProtocol.SASL_SSL)


class Mechanism(StrEnum):
    """SASL mechanisms, by Kafka's names."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    PLAIN = "PLAIN"
    """The password itself, which is checked by the credential of SCRAM-SHA-256."""
    OAUTHBEARER = "OAUTHBEARER"
    """A token that a provider has signed, where the instance has one."""

    @property
    def hash_name(self) -> str:
        """Of the hash function, as hashlib calls it."""
        return "sha512" if self is Mechanism.SCRAM_SHA_512 else "sha256"


SCRAM_MECHANISMS: Final = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
ITERATIONS: Final = 4096
"""Of PBKDF2, as Kafka's tools choose: at least so many."""
ITERATIONS_MAX: Final = 16_384
"""As in Kafka. A login by PLAIN takes so many here, too, and is charged to the instance."""
SALT_BYTES: Final = 16
SALT_BYTES_MAX: Final = 128
PASSWORD_CHARS_MIN: Final = 8
PASSWORD_CHARS_MAX: Final = 256


class ScramCredential(msgspec.Struct, frozen=True, kw_only=True):
    """What one mechanism checks a user's password by."""

    mechanism: Mechanism
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Nothing of it belongs in a log."""
        return f"<{self.mechanism}>"


class KafkaUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user of one instance."""

    name: str
    credentials: tuple[ScramCredential, ...]
    superuser: bool = False
    """May do everything in the instance, and make its users and ACLs by Kafka's own tools."""


def credential(
    mechanism: Mechanism, password: str, salt: bytes, iterations: int = ITERATIONS
) -> ScramCredential:
    """What is kept of a password (RFC 5802, 3)."""
    salted = pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return salted_credential(mechanism, salted, salt, iterations)


def salted_credential(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The same of what PBKDF2 has made of a password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        mechanism=mechanism,
        salt=salt,
        iterations=iterations,
        stored_key=hash_of(mechanism, client_key),
        server_key=hmac.digest(salted, b"Server Key", name),
    )


def hash_of(mechanism: Mechanism, data: bytes) -> bytes:
    """The mechanism's H()."""
    return new(mechanism.hash_name, data).digest()
