"""The floor that the broker is measured against: what the work itself costs in one Python process.

`append` receives the same Produce frames, checks the batch's CRC-32C, appends it to a file and answers;
`serve` answers every Fetch by `sendfile` of the same stored bytes. Neither parses anything else.
"""

import socket
import struct
import sys
import tempfile
from os import sendfile, write

import crc32c

_SIZE = struct.Struct(">i")


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
    an answer to Produce; `stored_bytes` > 0: answer with that many stored bytes instead of appending.
    """
    listener = socket.create_server(("127.0.0.1", port))
    frame = memoryview(bytearray(64 * 1024 * 1024))
    prefix = memoryview(bytearray(4))
    answer = _SIZE.pack(answer_size) + bytes(answer_size)
    with tempfile.TemporaryFile(dir=sys.argv[2]) as file:
        log = file.fileno()
        if stored_bytes:
            file.truncate(stored_bytes)
        while True:
            connection, _address = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while receive(connection, prefix):
                (size,) = _SIZE.unpack(prefix)
                if not receive(connection, frame[:size]):
                    break
                if stored_bytes:
                    serve(connection, log, stored_bytes)
                    continue
                crc32c.crc32c(frame[batch_at + 21 : size])
                write(log, frame[batch_at:size])
                connection.sendall(answer)
            connection.close()


def serve(connection: socket.socket, log: int, stored_bytes: int) -> None:
    """Answer with a length prefix and the stored bytes."""
    connection.sendall(_SIZE.pack(stored_bytes), socket.MSG_MORE)
    sent = 0
    while sent < stored_bytes:
        sent += sendfile(connection.fileno(), log, sent, stored_bytes - sent)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
