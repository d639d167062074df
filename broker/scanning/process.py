"""The scanning process: jobs come from the socket that is its standard input, answers go there."""

import os
import select
import socket
from time import thread_time_ns
from typing import Final

import msgspec

from broker.scanning.bench import Bench
from broker.scanning.messages import Frames, Request, framed

_NICENESS: Final = 5
_RECEIVE_BYTES: Final = 256 * 1024


def serve(peer: socket.socket) -> None:
    """Work until the other side is gone. A step is short: between two of them new jobs are taken."""
    bench = Bench(thread_time_ns, lambda answer: peer.sendall(framed(answer)))
    frames = Frames()
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        if not bench.is_busy or select.select([peer], [], [], 0)[0]:
            data = peer.recv(_RECEIVE_BYTES)
            if not data:
                return
            for body in frames.feed(data):
                bench.take(decoder.decode(body))
        if bench.is_busy:
            bench.run_step()


def main() -> None:
    """The child."""
    os.nice(_NICENESS)
    with socket.socket(fileno=0) as peer:
        try:
            serve(peer)
        except (BrokenPipeError, ConnectionResetError):
            return  # the broker is gone


if __name__ == "__main__":
    main()
