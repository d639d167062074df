"""An SMTP server that keeps what it takes, and answers as a test says."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from threading import Event, Thread


class SmtpServer:
    """Takes mail, and answers a command as a test says."""

    def __init__(self) -> None:
        self.came: list[tuple[list[str], EmailMessage]] = []
        self.answers: dict[str, str] = {}
        """By command; else 250."""
        self.is_silent = False
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if self.is_silent:
                await reader.read()  # until the client hangs up
                return
            writer.write(b"220 test\r\n")
            to: list[str] = []
            while line := (await reader.readline()).decode().strip():
                command = line.split(":")[0].split(" ")[0].upper()
                if command == "RCPT":
                    to.append(line.partition("<")[2].partition(">")[0])
                answer = self.answers.get(
                    command, {"DATA": "354 go on", "QUIT": "221 bye"}.get(command, "250 ok")
                )
                writer.write(f"{answer}\r\n".encode())
                if answer.startswith("354"):
                    body = (await reader.readuntil(b"\r\n.\r\n"))[:-5]
                    message = message_from_bytes(body, policy=policy.default)
                    assert isinstance(message, EmailMessage)
                    self.came.append((to, message))
                    to = []
                    writer.write(f"{self.answers.get('END', '250 taken')}\r\n".encode())
                if command == "QUIT":
                    break
        writer.close()

    @property
    def text(self) -> str:
        """Of the mail that came last."""
        return str(self.came[-1][1].get_content())

    def secret(self, purpose: str) -> str:
        """What stands behind the link of the mail that came last."""
        return next(
            word.rpartition("/#/mail/")[2] for word in self.text.split() if f"/#/mail/{purpose}." in word
        )


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
