"""How the brokers of an Apache Kafka are reached: what is told of it to everybody. No secret is in here.

Certificates and the password are files that each machine has for itself, below a directory of the
cluster's name; a spec says only which there are.
"""

from enum import StrEnum
from typing import Final

import msgspec

from contracts.users import Mechanism

CA_FILE: Final = "ca.pem"
CERTIFICATE_FILE: Final = "client.pem"
KEY_FILE: Final = "client.key"
PASSWORD_FILE: Final = "password"
ANONYMOUS: Final = "ANONYMOUS"
"""Whom Kafka takes a client for that has shown nothing."""
MECHANISMS: Final = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
"""What we can log in by."""


class ClusterTrouble(StrEnum):
    """Why a cluster cannot be used; `cause` of metrics."""

    UNREACHABLE = "unreachable"
    LOGIN_REFUSED = "login_refused"
    TLS_FAILED = "tls_failed"
    STRANGER = "stranger"
    """Another cluster answers than was met."""
    CREDENTIALS = "credentials"
    """Our own files are missing, or of no use."""
    UNUSABLE = "unusable"
    """It answers, and no instance could live there: its release, its settings."""

    @property
    def sentence(self) -> str:
        """For who lives on it, and is told no addresses."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    ClusterTrouble.UNREACHABLE: "its brokers give no answer",
    ClusterTrouble.LOGIN_REFUSED: "its brokers refuse the platform's login",
    ClusterTrouble.TLS_FAILED: "its brokers and the platform do not agree on TLS or its certificates",
    ClusterTrouble.STRANGER: "another cluster answers where its brokers were",
    ClusterTrouble.CREDENTIALS: "the platform has no credentials for its brokers",
    ClusterTrouble.UNUSABLE: "its brokers are not set up as the platform needs it",
}


class UpstreamSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """Of one cluster."""

    tls: bool = False
    has_ca: bool = False
    """Whether `CA_FILE` says whose certificates brokers show; else the system's authorities do."""
    has_certificate: bool = False
    """Whether brokers are shown ours, `CERTIFICATE_FILE` and `KEY_FILE`."""
    mechanism: Mechanism | None = None
    user: str = ""

    def faults(self) -> list[str]:
        """What cannot be meant, one sentence each."""
        rules = [
            (
                self.mechanism is None or self.mechanism in MECHANISMS,
                f"{self.mechanism} is not spoken upstream",
            ),
            ((self.mechanism is None) == (not self.user), "a SASL mechanism and a user go together"),
            (self.tls or not (self.has_ca or self.has_certificate), "certificates are for TLS"),
        ]
        return [sentence for holds, sentence in rules if not holds]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that everybody who connects must have."""
        wanted = (
            (self.has_ca, CA_FILE),
            (self.has_certificate, CERTIFICATE_FILE),
            (self.has_certificate, KEY_FILE),
            (self.mechanism is not None, PASSWORD_FILE),
        )
        return tuple(name for is_wanted, name in wanted if is_wanted)

    @property
    def quota_user(self) -> str | None:
        """Whom client quotas are set for. None: all who have none of their own (Kafka's `<default>`): the
        cluster makes a name of our certificate by rules that we do not know."""
        if self.mechanism is not None:
            return self.user
        return None if self.has_certificate else ANONYMOUS
