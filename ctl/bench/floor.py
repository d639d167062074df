"""The floor that the broker is measured against: what the work itself costs in one Python process.

`append` receives the same Produce frames, checks the batch's CRC-32C, appends it to a file and answers;
`serve` answers every Fetch by `sendfile` of the same stored bytes. Neither parses anything else.
"""

import socket
import struct
import sys
import tempfile
from os import sendfile, urandom, write

import crc32c

_SIZE = struct.Struct(">i")
STORED_ANSWERS = 200
"""As many answers as the broker has stored, so that neither side serves from a processor cache."""


def receive(connection: socket.socket, view: memoryview) -> bool:
    """Fill `view`; False at the end of the stream."""
    at = 0
    while at < len(view):
        size = connection.recv_into(view[at:])
        if size == 0:
            return False
        at += size
    return True


def run(port: int, batch_at: int, answer_size: int, stored_bytes: int) -> None:
    """Serve one connection after another.

    `batch_at`: offset of the record batch in a frame without its length prefix; `answer_size`: bytes of
    an answer to Produce; `stored_bytes` > 0: answer with that many stored bytes instead of appending, each
    time those behind the last.
    """
    listener = socket.create_server(("127.0.0.1", port))
    frame = memoryview(bytearray(64 * 1024 * 1024))
    prefix = memoryview(bytearray(4))
    answer = _SIZE.pack(answer_size) + bytes(answer_size)
    with tempfile.TemporaryFile(dir=sys.argv[2]) as file:
        log = file.fileno()
        for _ in range(STORED_ANSWERS if stored_bytes else 0):
            write(log, urandom(stored_bytes))
        turn = 0
        while True:
            connection, _address = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while receive(connection, prefix):
                (size,) = _SIZE.unpack(prefix)
                if not receive(connection, frame[:size]):
                    break
                if stored_bytes:
                    turn = (turn + 1) % STORED_ANSWERS
                    serve(connection, log, turn * stored_bytes, stored_bytes)
                    continue
                crc32c.crc32c(frame[batch_at + 21 : size])
                write(log, frame[batch_at:size])
                connection.sendall(answer)
            connection.close()


def serve(connection: socket.socket, log: int, start: int, size: int) -> None:
    """Answer with a length prefix and stored bytes."""
    connection.sendall(_SIZE.pack(size), socket.MSG_MORE)
    end = start + size
    while start < end:
        start += sendfile(connection.fileno(), log, start, end - start)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
