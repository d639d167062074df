"""The gateway's certificate, from files that may be exchanged while it runs.

New connections get the new one; files that no client could use, yet or at all, leave the old one in use.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What the command line names."""

    certificate: Path
    """The gateway's, then those between it and what clients trust, PEM."""
    key: Path
    client_ca: Path | None = None
    """Whose certificates clients show where they do not log in; None: they need show none."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    server: ssl.SSLContext
    by_certificate: ssl.SSLContext
    not_after_s: float


class Certificates:
    """What new connections get. `refresh` is to be called every now and then."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen: object = None
        self._loaded: _Loaded | None = None
        self.failure = ""
        """Why the files, as they are now, are not used."""
        self.refresh()

    def refresh(self) -> bool:
        """Look at the files again; whether they have changed, and are used now."""
        files = self._files
        marks = [_mark(path) for path in (files.certificate, files.key, files.client_ca)]
        if marks == self._seen:
            return False
        self._seen = marks
        try:
            self._loaded = _load(files)
        except (OSError, ValueError) as error:  # of ssl among them
            self.failure = str(error)
            return False
        self.failure = ""
        return True

    @property
    def is_usable(self) -> bool:
        """Whether there is one for new connections."""
        return self._loaded is not None

    @property
    def not_after_s(self) -> float:
        """Until when clients take the one in use, epoch; 0: there is none."""
        return 0.0 if self._loaded is None else self._loaded.not_after_s

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients that do not log in have to show one."""
        return self._files.client_ca is not None

    def context(self, *, by_certificate: bool) -> ssl.SSLContext:
        """For one new connection, whose client shows a certificate or not."""
        assert self._loaded is not None
        return self._loaded.by_certificate if by_certificate else self._loaded.server


def _mark(path: Path | None) -> tuple[int, int, int] | None:
    """Kubernetes exchanges the folder that the file is in, behind a link."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _load(files: TlsFiles) -> _Loaded:
    """Raises: OSError, ValueError."""
    server = by_certificate = _context(files)
    if files.client_ca is not None:
        by_certificate = _context(files)
        by_certificate.load_verify_locations(files.client_ca)
        by_certificate.verify_mode = ssl.CERT_REQUIRED
    return _Loaded(server, by_certificate, _not_after_s(server, files.certificate))


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # connections of Kafka last, and a ticket could outlive its user
    # A key with a passphrase would be asked for at the terminal.
    context.load_cert_chain(files.certificate, files.key, password="")
    return context


def _not_after_s(server: ssl.SSLContext, certificate: Path) -> float:
    """Until when it is good, found by a handshake with ourselves, which fails where a client's would.

    Raises: SSLError of one that has expired, is not valid yet, or is none for a server.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up)
    for side in (theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    found = theirs.getpeercert()
    assert found is not None
    return float(ssl.cert_time_to_seconds(str(found["notAfter"])))
