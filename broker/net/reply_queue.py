"""What leaves on one socket: bytes by sendmsg, slices of log segments by sendfile. Partial writes resume."""

import socket
from collections import deque
from typing import Final

from broker.requests.call import ReplyPart
from runtime.network import Network

_TURN_BYTES: Final = 4 * 1024 * 1024
"""What one connection may send before others get their turn."""
_IOV_MAX: Final = 64
_COLLECTED_BYTES_MAX: Final = 64 * 1024
"""Bytes of answers that wait for those behind them: more leave at once."""


class PeerGone(Exception):  # noqa: N818 - a fact about the peer
    """The socket takes no more bytes, ever."""


class ReplyQueue:
    """Queued parts of replies and how far the first of them has been sent."""

    __slots__ = (
        "_collected_bytes",
        "_first_sent",
        "_network",
        "_socket",
        "collected",
        "parts",
        "sent_bytes",
    )

    def __init__(self, sock: socket.socket, network: Network) -> None:
        self._socket = sock
        self._network = network
        self.parts: deque[ReplyPart] = deque()
        """What has not left; to be asked, not changed."""
        self._first_sent = 0
        self.collected: list[bytes] = []
        """What leaves with the next `send`, before it; to be asked, not changed."""
        self._collected_bytes = 0
        self.sent_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.parts)

    def collect(self, part: ReplyPart) -> bool:
        """Keep an answer for the ones behind it: in one piece they cost us, the gateway and the client one
        call. False: it is too much, or of a file, and was not kept."""
        if not isinstance(part, bytes):
            return False
        self._collected_bytes += len(part)
        if self._collected_bytes > _COLLECTED_BYTES_MAX:
            return False
        self.collected.append(part)
        return True

    def send(self, parts: list[ReplyPart]) -> bool:
        """Queue parts and send what the socket takes now; True when everything has left.

        Raises: PeerGone.
        """
        if self.collected:
            parts = [b"".join(self.collected), *parts]
            self.collected.clear()
        self._collected_bytes = 0
        if len(parts) == 1 and not self.parts and isinstance(parts[0], bytes):
            return self._send_only(parts[0])
        self.parts.extend(parts)
        return self.flush()

    def _send_only(self, part: bytes) -> bool:
        try:
            sent = self._socket.send(part)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise PeerGone(str(error)) from error
        self.sent_bytes += sent
        if sent == len(part):
            return True
        self.parts.append(part)
        self._first_sent = sent
        return False

    def flush(self) -> bool:
        """Send on; False when the socket is full or the turn is over. Raises: PeerGone."""
        turn = 0
        while self.parts and turn < _TURN_BYTES:
            try:
                if isinstance(self.parts[0], (bytes, bytearray, memoryview)):
                    sent, offered = self._send_buffers()
                else:
                    sent, offered = self._send_file()
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise PeerGone(str(error)) from error
            turn += sent
            if sent < offered:
                return False
        return not self.parts

    def _send_buffers(self) -> tuple[int, int]:
        views: list[memoryview] = []
        more = 0
        for part in self.parts:
            if len(views) == _IOV_MAX:
                break
            if not isinstance(part, (bytes, bytearray, memoryview)):
                more = socket.MSG_MORE
                break
            views.append(memoryview(part))
        views[0] = views[0][self._first_sent :]
        offered = sum(map(len, views))
        sent = self._socket.sendmsg(views, (), more)
        self._advance(sent)
        return sent, offered

    def _send_file(self) -> tuple[int, int]:
        part = self.parts[0]
        assert not isinstance(part, (bytes, bytearray, memoryview))
        offered = part.size_bytes - self._first_sent
        sent = self._network.send_file(self._socket, part.fd, part.position + self._first_sent, offered)
        if sent == 0 and offered > 0:
            raise PeerGone("a log segment is shorter than the slice that was promised")
        self._advance(sent)
        return sent, offered

    def _advance(self, sent: int) -> None:
        self.sent_bytes += sent
        sent += self._first_sent
        while self.parts:
            part = self.parts[0]
            size = len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size_bytes
            if sent < size:
                break
            sent -= size
            self.parts.popleft()
        self._first_sent = sent

    def clear(self) -> None:
        """Drop what is queued: the connection is closed."""
        self.parts.clear()
        self.collected.clear()
        self._first_sent = 0
