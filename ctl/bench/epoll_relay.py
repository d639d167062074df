"""A relay that does as little as Python can do: one epoll, no loop around it, no callbacks kept by anybody.

As `relay.py`: raw sockets, one shared 1 MiB buffer, send at once; what the peer does not take is kept, and
reading stops until it is gone.
"""

import select
import socket
import sys
from typing import Final

_BUFFER: Final = memoryview(bytearray(1024 * 1024))


class End:
    """One socket of a relayed connection, which is read to be sent by `other`."""

    __slots__ = ("other", "rest", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.other: End = self
        self.rest = memoryview(b"")
        """What it has not taken yet of what the other one got."""


def relay(listen_port: int, target_port: int) -> None:
    """Relay every connection of one loopback port to another, for ever."""
    listener = socket.create_server(("127.0.0.1", listen_port), backlog=1024)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    ends: dict[int, End] = {}
    while True:
        for descriptor, _events in poll.poll():
            end = ends.get(descriptor)
            if descriptor == listener.fileno():
                for new in _accepted(listener, target_port):
                    ends[new.sock.fileno()] = new
                    poll.register(new.sock, select.EPOLLIN)
            elif end is not None and not _moves(poll, end):
                for each in (end, end.other):
                    del ends[each.sock.fileno()]
                    each.sock.close()


def _accepted(listener: socket.socket, target_port: int) -> tuple[End, End]:
    client, upstream = End(listener.accept()[0]), End(socket.create_connection(("127.0.0.1", target_port)))
    client.other, upstream.other = upstream, client
    for each in (client, upstream):
        each.sock.setblocking(False)
        each.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, upstream


def _moves(poll: select.epoll, end: End) -> bool:
    """Send what is left, or read and send; whether the connection goes on."""
    try:
        if end.rest:
            end.rest = end.rest[end.sock.send(end.rest) :]
            if not end.rest:
                poll.modify(end.sock, select.EPOLLIN)
                poll.modify(end.other.sock, select.EPOLLIN)
            return True
        size = end.sock.recv_into(_BUFFER)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if not size:
        return False
    sink = end.other
    try:
        sent = sink.sock.send(_BUFFER[:size])
    except BlockingIOError:
        sent = 0
    except OSError:
        return False
    if sent < size:
        sink.rest = memoryview(bytes(_BUFFER[sent:size]))
        poll.modify(sink.sock, select.EPOLLOUT)
        poll.modify(end.sock, 0)
    return True


if __name__ == "__main__":
    relay(int(sys.argv[1]), int(sys.argv[2]))
