"""The rest of a large record batch goes from socket to socket through a pipe, without being copied to us.

Worth it from a quarter of a megabyte on, dearer than reading below (docs/performance.md). The pipe is the
worker's own and empty between two callbacks, so one serves all connections.
"""

import contextlib
import fcntl
import os
from typing import Final

from gateway.sockets import Outbox

SPLICE_BYTES_MIN: Final = 256 * 1024
_PIPE_BYTES: Final = 1024 * 1024
_FLAGS: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class SplicePipe:
    """One pipe."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(PermissionError):  # an unprivileged user's limit: a smaller pipe works, too
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def move(self, source: int, sink: Outbox, bytes_max: int) -> int:
        """Move up to `bytes_max` from a socket to an outbox that is empty; 0 is the end of the stream.

        What the sink does not take is read out of the pipe and waits in the outbox as usual.
        Raises: BlockingIOError when there is nothing to read, OSError of the source.
        """
        assert sink.is_empty
        taken = os.splice(source, self._in, min(bytes_max, _PIPE_BYTES), flags=_FLAGS)
        left = taken
        failure: OSError | None = None
        while left:
            try:
                left -= os.splice(self._out, sink.sock.fileno(), left, flags=_FLAGS)
            except BlockingIOError:
                break
            except OSError as error:
                failure = error
                break
        if left:
            rest = self._read_out(left)
            if failure is None:
                sink.keep(rest)
        if failure is not None:
            sink.broken(failure)
        return taken

    def _read_out(self, size: int) -> list[bytes]:
        """Empty the pipe of its last `size` bytes."""
        pieces = []
        while size:
            piece = os.read(self._out, size)
            assert piece, "the pipe holds what was put in"
            pieces.append(piece)
            size -= len(piece)
        return pieces

    def close(self) -> None:
        """Close both ends."""
        os.close(self._out)
        os.close(self._in)
