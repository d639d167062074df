"""TLS over a pair of sockets: bytes go both ways, whoever is slow; wrong first bytes and certificates."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.causes import DisconnectCause
from gateway.certificates import Certificates, TlsFiles
from gateway.tls import TlsError, TlsSocket, common_name

FOLDER: Final = Path(__file__).resolve().parents[2] / "certificates"
RECORDS: Final = bytes(range(256)) * 8_000
WINDOW: Final = 64 * 1024 - 12


def files(name: str = "gateway", client_ca: str | None = None) -> TlsFiles:
    ca = None if client_ca is None else FOLDER / f"{client_ca}.pem"
    return TlsFiles(FOLDER / f"{name}.pem", FOLDER / f"{name}.key", ca)


def trusting(certificate: str | None = None, **changes: object) -> ssl.SSLContext:
    """A client's context."""
    context = ssl.create_default_context(cafile=FOLDER / "authority.pem")
    if certificate is not None:
        context.load_cert_chain(FOLDER / f"{certificate}.pem", FOLDER / f"{certificate}.key")
    for name, value in changes.items():
        setattr(context, name, value)
    return context


class Pair:
    """Our side, non-blocking as in the gateway, and a client's, which blocks and has a thread of its own."""

    def __init__(self, client_ca: str | None = None, *, is_user: Callable[[str], bool] | None = None) -> None:
        raw, self.client = socket.socketpair()
        raw.setblocking(False)
        self.client.settimeout(30)
        context = Certificates(files(client_ca=client_ca)).context(by_certificate=client_ca is not None)
        self.spent_ns: list[int] = []
        self.opened: list[bool] = []
        self.clock_ms = 5_000
        self.ours = TlsSocket(
            raw, context, is_user, clock_ns=lambda: self.clock_ms * 1_000_000, spent=self.spent_ns.append
        )
        self.ours.opened = lambda: self.opened.append(self.ours.is_open)
        self.errors: list[Exception] = []
        self._thread: threading.Thread | None = None

    def runs(self, work: Callable[[], None]) -> None:
        """In the client's thread."""

        def run() -> None:
            try:
                work()
            except (OSError, ValueError) as error:
                self.errors.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def joins(self) -> None:
        assert self._thread is not None
        self._thread.join(60)
        assert not self._thread.is_alive()

    def received(self, size: int | None = None) -> bytes:
        """What comes to us: so much, or until the end."""
        came, window = bytearray(), memoryview(bytearray(WINDOW))
        while size is None or len(came) < size:
            try:
                count = self.ours.recv_into(window)
            except BlockingIOError:
                continue
            if not count:
                break
            came += window[:count]
        return bytes(came)

    def sent(self, data: bytes) -> None:
        """All of it, as an outbox does: what was not taken is brought again."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.ours.send(left) :]
            except BlockingIOError:
                continue


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.ours.close()
    made.client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_go_both_ways_also_when_sockets_are_full(pair: Pair, version: ssl.TLSVersion) -> None:
    came: list[bytes] = []

    def client() -> None:
        context = trusting(minimum_version=version, maximum_version=version)
        with context.wrap_socket(pair.client, server_hostname="127.0.0.1") as tls:
            tls.sendall(RECORDS)
            while sum(map(len, came)) < len(RECORDS):
                came.append(tls.recv(100_000))

    pair.runs(client)
    assert pair.received(len(RECORDS)) == RECORDS and pair.ours.is_open
    pair.sent(RECORDS)
    pair.joins()
    assert not pair.errors and b"".join(came) == RECORDS


def test_the_end_is_told_both_ways(pair: Pair) -> None:
    def client() -> None:
        tls = trusting().wrap_socket(pair.client, server_hostname="127.0.0.1")
        tls.sendall(b"last words")
        tls.unwrap()

    pair.runs(client)
    assert pair.received() == b"last words"
    pair.ours.close()
    pair.joins()
    assert not pair.errors, "a client that is not told complains of a truncated stream"


def failed(pair: Pair, client: Callable[[], None]) -> DisconnectCause:
    pair.runs(client)
    with pytest.raises(TlsError) as error:
        pair.received()
    pair.ours.close()
    pair.joins()
    return error.value.cause


@pytest.mark.parametrize("first", [b"\0\0\0\x14", b"GET / HTTP/1.1\r\n\r\n", b"\x80"])
def test_other_first_bytes_have_a_name(pair: Pair, first: bytes) -> None:
    assert failed(pair, lambda: pair.client.sendall(first)) is DisconnectCause.NOT_TLS


@pytest.mark.parametrize(
    "wrong",
    [b"\x16\x03\x01\x00\x05nonse", b"\x16" * 70_000, b"\x16\x03\x01\xff\xff" + bytes(300)],
)
def test_bytes_that_only_begin_like_a_handshake_end_it(pair: Pair, wrong: bytes) -> None:
    assert failed(pair, lambda: pair.client.sendall(wrong)) is DisconnectCause.TLS_HANDSHAKE_FAILED


@pytest.mark.parametrize(
    ("head", "ends"),
    [
        (b"\x16\x03\x01\x10\x00\x01\x01\xff\xff", True),  # a message of 128 KiB
        (b"\x16\x03\x01\x10\x00\x01\x00\x40\x01", True),
        (b"\x16\x03\x01\x40\x01\x01\x00\x02\x00", True),  # a record of 16 KiB and one
        (b"\x16\x03\x01\x10\x00\x02\x00\x02\x00", True),  # a server's hello
        (b"\x16\x02\x01\x10\x00\x01\x00\x02\x00", True),
        (b"\x16\x03\x01\x40\x00\x01\x00\x40\x00", False),
    ],
)
def test_a_hello_is_refused_by_its_head(pair: Pair, head: bytes, ends: bool) -> None:
    pair.client.sendall(head)
    with pytest.raises(TlsError if ends else BlockingIOError) as error:
        pair.ours.recv_into(memoryview(bytearray(WINDOW)))
    if isinstance(error.value, TlsError):
        assert error.value.cause is DisconnectCause.TLS_HANDSHAKE_FAILED


def test_a_hello_in_crumbs_is_taken_and_costs_nothing_before_it_is_whole(pair: Pair) -> None:
    incoming, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting().wrap_bio(incoming, hello, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    window = memoryview(bytearray(WINDOW))
    crumbs = hello.read()
    pair.client.setblocking(False)
    for at in range(len(crumbs)):
        with pytest.raises(BlockingIOError):
            pair.client.recv(1)
        assert not pair.spent_ns
        pair.client.sendall(crumbs[at : at + 1])
        with pytest.raises(BlockingIOError):
            pair.ours.recv_into(window)
    incoming.write(pair.client.recv(WINDOW))
    client.do_handshake()
    pair.client.sendall(hello.read())
    assert not pair.opened
    with pytest.raises(BlockingIOError):
        pair.ours.recv_into(window)
    assert pair.ours.is_open and pair.opened == [True] and len(pair.spent_ns) == 2


def test_a_handshake_is_overdue_by_its_own_name_and_at_last_whoever_kept_it_waiting(pair: Pair) -> None:
    began_ms, late = pair.clock_ms, DisconnectCause.TLS_HANDSHAKE_TIMEOUT
    for cause in (DisconnectCause.FIRST_BYTE_TIMEOUT, DisconnectCause.LOGIN_TIMEOUT):
        assert pair.ours.overdue(cause, 30_000, began_ms) is late
    assert pair.ours.overdue(None, 30_000, began_ms + 29_999) is None
    assert pair.ours.overdue(None, 30_000, began_ms + 30_000) is late
    pair.runs(lambda: trusting().wrap_socket(pair.client, server_hostname="127.0.0.1").sendall(b"x"))
    assert pair.received(1) == b"x"
    for cause in (None, DisconnectCause.FIRST_BYTE_TIMEOUT):
        assert pair.ours.overdue(cause, 30_000, began_ms + 30_000) is cause
    pair.joins()


def test_a_client_that_does_not_trust_us_or_is_too_old_ends_it(pair: Pair) -> None:
    context = ssl.create_default_context(cafile=FOLDER / "others.pem")

    def client() -> None:
        context.wrap_socket(pair.client, server_hostname="127.0.0.1")

    assert failed(pair, client) is DisconnectCause.TLS_HANDSHAKE_FAILED
    assert isinstance(pair.errors[0], ssl.SSLCertVerificationError)


def with_certificate(certificate: str | None, *users: str) -> tuple[Pair, DisconnectCause | None]:
    """What becomes of a client that shows this one, where users show certificates of `authority`."""
    pair = Pair("authority", is_user=users.__contains__)

    def client() -> None:
        with trusting(certificate).wrap_socket(pair.client, server_hostname="127.0.0.1") as tls:
            tls.sendall(b"hello")
            tls.recv(1)

    pair.runs(client)
    cause = None
    try:
        assert pair.received(5) == b"hello"
    except TlsError as error:
        cause = error.cause
    pair.ours.close()
    pair.joins()
    pair.client.close()
    return pair, cause


def test_a_certificate_names_its_user() -> None:
    pair, cause = with_certificate("app", "app")
    assert cause is None and pair.ours.user == "app" and not pair.ours.is_void
    assert with_certificate("nobody", "app")[1] is DisconnectCause.CERTIFICATE_REFUSED
    for wrong in (None, "impostor", "late_app"):
        assert with_certificate(wrong, "app")[1] is DisconnectCause.TLS_HANDSHAKE_FAILED, wrong


def test_a_subject_with_several_common_names_is_nobody() -> None:
    def subject(*names: str) -> dict[str, object]:
        return {"subject": ((("organizationName", "o"),), *(((("commonName", one),)) for one in names))}

    assert common_name(subject("app")) == "app"
    for nobody in (None, {}, subject(), subject("app", "admin")):
        assert common_name(nobody) is None


def test_a_new_certificate_is_taken_and_a_broken_one_leaves_the_old_in_use(tmp_path: Path) -> None:
    def write(certificate: str, key: str | None = None) -> None:
        (tmp_path / "c.pem").write_bytes((FOLDER / f"{certificate}.pem").read_bytes())
        (tmp_path / "k.pem").write_bytes((FOLDER / f"{key or certificate}.key").read_bytes())

    found = Certificates(TlsFiles(tmp_path / "c.pem", tmp_path / "k.pem"))
    assert not found.is_usable and found.failure and found.not_after_s == 0
    write("gateway")
    assert found.refresh() and not found.refresh() and found.is_usable
    assert found.not_after_s == 4_733_510_400, "2120"
    first = found.context(by_certificate=False)
    for certificate, key in (("gateway_2", "gateway"), ("expired", None), ("ahead", None), ("app", None)):
        write(certificate, key)
        assert not found.refresh() and found.failure, certificate
        assert found.context(by_certificate=False) is first
    (tmp_path / "c.pem").write_text("nonsense")
    assert not found.refresh() and found.failure and found.is_usable
    (tmp_path / "c.pem").unlink()
    assert not found.refresh() and found.is_usable
    write("gateway_2")
    assert found.refresh() and not found.failure
    assert found.context(by_certificate=False) is not first
