"""The way into a cluster of Apache Kafka: TLS, a login, and whether it is the cluster that we mean.

Whoever connects to one goes through here, so credentials become client options in one place. Files are
looked at with each connection, so what was exchanged is used by the next one. A broker that refuses us is
left alone for a while, longer each time: a thousand clients that come again must not become a thousand wrong
logins.
"""

import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from contracts.specs import ClusterSpec, Engine
from contracts.upstream import CA_FILE, CERTIFICATE_FILE, KEY_FILE, PASSWORD_FILE, ClusterTrouble
from runtime.clock import monotonic_ms
from wire.client import SpeaksTls
from wire.login import EntryRefused, Steps, WrongCluster, entry_steps, login_steps
from wire.scram_client import Salted

_WAIT_MS: Final = 1_000
_WAIT_MS_MAX: Final = 30_000

Address = tuple[str, int]


class Refused(Exception):  # noqa: N818 - a verdict
    """A broker does not let us in, or we do not trust it, or our own files are of no use; the text says."""

    trouble: ClassVar[ClusterTrouble]


class LoginNotTaken(Refused):
    """The login."""

    trouble = ClusterTrouble.LOGIN_REFUSED


class TlsNotAgreed(Refused):
    """A certificate, or TLS altogether."""

    trouble = ClusterTrouble.TLS_FAILED


class StrangerAnswers(Refused):
    """Another cluster than was met before answers at the address."""

    trouble = ClusterTrouble.STRANGER


class FilesOfNoUse(Refused):
    """Nothing was tried."""

    trouble = ClusterTrouble.CREDENTIALS


@dataclass(slots=True)
class _Brake:
    refused: Refused
    wait_ms: int
    until_ms: int


class Upstream:
    """The way to one cluster, for all connections of this process."""

    def __init__(
        self,
        spec: ClusterSpec,
        directory: Path | None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """`directory` has the credentials of all clusters, a folder each; None: there are none here."""
        self.security = spec.security
        self.kafka_cluster_id = spec.kafka_cluster_id
        self._folder = None if directory is None else directory / spec.cluster_id
        self._now_ms = now_ms
        self._seen: object = None
        self._context: ssl.SSLContext | None = None
        self._password = ""
        self._salted: Salted = {}
        self._brakes: dict[Address, _Brake] = {}

    def enter(self, address: Address) -> None:
        """Before a connection to a broker is begun. Raises: Refused while that makes no sense."""
        self._look()
        brake = self._brakes.get(address)
        if brake is not None and self._now_ms() < brake.until_ms:
            raise type(brake.refused)(str(brake.refused))

    def refused(self, address: Address, refused: Refused) -> None:
        """The broker has refused us."""
        before = self._brakes.get(address)
        wait_ms = _WAIT_MS if before is None else min(2 * before.wait_ms, _WAIT_MS_MAX)
        self._brakes[address] = _Brake(refused, wait_ms, self._now_ms() + wait_ms)

    def entered(self, address: Address) -> None:
        """The broker has let us in."""
        self._brakes.pop(address, None)

    def way(self) -> object:
        """The same one for as long as the files are the same: a connection that was made by another one says
        nothing of whether we would be let in now. Raises: Refused."""
        self._look()
        return self._seen

    @property
    def context(self) -> ssl.SSLContext | None:
        """For a connection, after `enter`; None: without TLS."""
        return self._context

    def steps(self) -> Steps:
        """What is asked before anything else, after `enter`."""
        security, login = self.security, None
        if security.mechanism is not None:
            nonce = secrets.token_urlsafe(18)
            login = login_steps(security.mechanism, security.user, self._password, nonce, self._salted)
        return entry_steps(login, self.kafka_cluster_id)

    def client_options(self) -> dict[str, str]:
        """The same for librdkafka. Raises: Refused."""
        self._look()
        security = self.security
        kind = ("SASL_" if security.mechanism else "") + ("SSL" if security.tls else "PLAINTEXT")
        options = {"security.protocol": kind}
        if security.mechanism is not None:
            options |= {"sasl.mechanism": security.mechanism.value, "sasl.username": security.user}
            options |= {"sasl.password": self._password}
        if security.has_ca:
            options["ssl.ca.location"] = str(self._file(CA_FILE))
        if security.has_certificate:
            options["ssl.certificate.location"] = str(self._file(CERTIFICATE_FILE))
            options["ssl.key.location"] = str(self._file(KEY_FILE))
        return options

    def _look(self) -> None:
        """Raises: FilesOfNoUse."""
        marks = {name: _mark(self._file(name)) for name in self.security.files}
        if marks == self._seen:
            return
        missing = [str(self._file(name)) for name, mark in marks.items() if mark is None]
        if missing:
            raise FilesOfNoUse(f"{', '.join(missing)} is not there")
        try:
            context = self._loaded() if self.security.tls else None
            password = "" if self.security.mechanism is None else self._read_password()
        except (OSError, ValueError) as error:  # of ssl among them
            raise FilesOfNoUse(f"credentials in {self._folder} are of no use: {error}") from error
        self._context, self._password, self._seen = context, password, marks
        self._brakes = {}

    def _file(self, name: str) -> Path:
        if self._folder is None:
            raise FilesOfNoUse("this process was not told where credentials of clusters are")
        return self._folder / name

    def _read_password(self) -> str:
        password = self._file(PASSWORD_FILE).read_text().rstrip("\r\n")
        if not password:
            raise ValueError(f"{PASSWORD_FILE} is empty")
        return password

    def _loaded(self) -> ssl.SSLContext:
        """Brokers must have a certificate for the name that we reach them by."""
        context = ssl.create_default_context(cafile=self._file(CA_FILE) if self.security.has_ca else None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Kafka's other clients take such authorities
        if self.security.has_certificate:
            # A key with a passphrase would be asked for at the terminal.
            context.load_cert_chain(self._file(CERTIFICATE_FILE), self._file(KEY_FILE), password="")
        return context


class Upstreams:
    """Those of all clusters."""

    def __init__(self, directory: Path | None, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._directory = directory
        self._now_ms = now_ms
        self._kept: dict[str, Upstream] = {}

    def of(self, spec: ClusterSpec) -> Upstream | None:
        """The way to a cluster; None: it is ours."""
        if spec.engine is not Engine.APACHE:
            return None
        kept = self._kept.get(spec.cluster_id)
        if kept is None or (kept.security, kept.kafka_cluster_id) != (spec.security, spec.kafka_cluster_id):
            kept = self._kept[spec.cluster_id] = Upstream(spec, self._directory, self._now_ms)
        return kept


def judged(error: OSError | EntryRefused | SpeaksTls) -> Refused:
    """Why we are not in, in words of operators. An OSError is the end of a connection that began with TLS,
    before anything was answered: whoever does not take our certificate may say so, or just go."""
    match error:
        case WrongCluster():
            return StrangerAnswers(str(error))
        case EntryRefused():
            return LoginNotTaken(str(error))
        case SpeaksTls():
            return TlsNotAgreed(str(error))
        case ssl.SSLCertVerificationError():
            return TlsNotAgreed(f"its certificate is not trusted: {error.verify_message}")
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "PACKET_LENGTH_TOO_LONG" | "RECORD_LAYER_FAILURE"):
            return TlsNotAgreed("it does not speak TLS at that port")
        case ssl.SSLError():
            return TlsNotAgreed(f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}")
        case _:
            return TlsNotAgreed(
                "it closed the connection before it answered: does it speak TLS, and take our certificate?"
            )


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Kubernetes exchanges the folder that the file is in, behind a link."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
