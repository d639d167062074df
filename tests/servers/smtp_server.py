"""An SMTP server, aiosmtpd's, that keeps what it takes, and answers or stalls as a test says."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from threading import Event, Thread
from typing import Final

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

GREETING: Final = "GREETING"
_TAKEN: Final = "250 OK"


class SmtpServer:
    """Takes mail. With `tls` it offers STARTTLS, with `logins` a login; with both it demands both."""

    def __init__(self, tls: ssl.SSLContext | None = None, logins: dict[str, str] | None = None) -> None:
        self.came: list[tuple[list[str], EmailMessage]] = []
        self.came_by: list[tuple[bool, object]] = []
        """Of each: whether through TLS, and as whom."""
        self.tried: list[str] = []
        """Passwords that it was told."""
        self.answers: dict[str, str] = {}
        """By command; of DATA, to the mail itself."""
        self.stalls_at = ""
        """A command, or the greeting, that is never answered."""
        self.port = 0
        self._tls = tls
        self._logins = logins
        self._server: asyncio.Server | None = None

    async def start(self, tls_first: ssl.SSLContext | None = None) -> None:
        """Serve; with `tls_first`, TLS begins each connection."""
        loop = asyncio.get_running_loop()

        def serve() -> SMTP:
            return _Protocol(self, self._tls, self._logins)

        self._server = await loop.create_server(serve, "127.0.0.1", ssl=tls_first)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def answer(self, command: str) -> str | None:
        """What a test wants said; None: it has no wish."""
        if self.stalls_at == command:
            await asyncio.Event().wait()
        return self.answers.get(command)

    @property
    def text(self) -> str:
        """Of the mail that came last."""
        return str(self.came[-1][1].get_content())

    def secret(self, purpose: str) -> str:
        """What stands behind the link of the mail that came last."""
        return next(
            word.rpartition("/#/mail/")[2] for word in self.text.split() if f"/#/mail/{purpose}." in word
        )


class _Protocol(SMTP):
    """One connection, which is also the handler that aiosmtpd asks."""

    def __init__(self, server: SmtpServer, tls: ssl.SSLContext | None, logins: dict[str, str] | None) -> None:
        self._told = server

        def known(*asked: object) -> AuthResult:
            said = asked[-1]
            assert isinstance(said, LoginPassword)
            server.tried.append(said.password.decode())
            is_known = (logins or {}).get(said.login.decode()) == said.password.decode()
            return AuthResult(success=is_known, handled=False, auth_data=said.login.decode())

        super().__init__(
            _Handler(server),
            hostname="test",
            tls_context=tls,
            authenticator=known,
            auth_required=tls is not None and logins is not None,
            auth_require_tls=tls is not None,
            require_starttls=tls is not None and logins is not None,
        )

    async def _handle_client(self) -> None:
        await self._told.answer(GREETING)
        await super()._handle_client()


class _Handler:
    def __init__(self, server: SmtpServer) -> None:
        self._server = server

    async def handle_EHLO(
        self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        answer = await self._server.answer("EHLO")
        session.host_name = hostname
        return responses if answer is None else [answer]

    async def handle_HELO(self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str) -> str:
        session.host_name = hostname
        return await self._server.answer("HELO") or "250 test"

    async def handle_MAIL(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        envelope.mail_from = address
        return await self._server.answer("MAIL") or _TAKEN

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        answer = await self._server.answer("RCPT")
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or _TAKEN

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        answer = await self._server.answer("DATA")
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        if answer is None:
            self._server.came.append((list(envelope.rcpt_tos), message))
            self._server.came_by.append((session.ssl is not None, session.auth_data))
        return answer or _TAKEN


@contextmanager
def smtp_server_in_thread() -> Iterator[SmtpServer]:
    """One for tests that have no loop; its port is known when it is given."""
    server, is_up = SmtpServer(), Event()
    loop = asyncio.new_event_loop()

    async def start() -> None:
        await server.start()
        is_up.set()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = Thread(target=serve, daemon=True)
    thread.start()
    assert is_up.wait(30)
    yield server
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
