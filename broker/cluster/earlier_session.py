"""Which session of the metadata tree this data directory's broker had last.

A broker that was killed leaves its ephemeral nodes behind until its session times out. The next one on the
same data directory, which it holds locked, knows that the session's owner is dead and need not wait.
"""

from pathlib import Path
from typing import Final

from broker.log.files import replace_file

_FILE: Final = "session"


class EarlierSession:
    """A file of one line: the session, and which directory it was written in, for a copy of the directory
    says nothing of who is dead."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _FILE

    def recall(self) -> int:
        """The session id, 0 without one. Raises: OSError."""
        try:
            session_id, where = self._path.read_text().split(" ", 1)
            return int(session_id, 16) if where == self._where() else 0
        except (FileNotFoundError, ValueError):
            return 0

    def note(self, session_id: int) -> None:
        """Before the session owns anything. Raises: OSError."""
        replace_file(self._path, f"{session_id:x} {self._where()}".encode())

    def _where(self) -> str:
        stat = self._path.parent.stat()
        return f"{stat.st_dev}:{stat.st_ino}"
