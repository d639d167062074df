"""A directory that backups are taken into on a schedule: what they are called, and which of them go.

Names hold the deployment and the time, so several deployments can share a directory, and each removes its own
alone. Nothing is removed before the new one lies there and was read back.
"""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ctl.backup.archive import ArchiveFault, ArchiveReader
from ctl.errors import CommandError

_DEPLOYMENT_CHARACTERS: Final = 8
_ABANDONED_AFTER_MS: Final = 24 * 3600 * 1000
"""A file that was begun so long ago is of a process that was killed."""


def name_of(deployment: str, now_ms: int) -> str:
    """The name of a backup: sorted by name they are sorted by time."""
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
    return f"portico-{deployment[:_DEPLOYMENT_CHARACTERS]}-{at}.zip"


def outdated(names: Iterable[str], newest: str, kept: int) -> list[str]:
    """Backups of the deployment of `newest` beyond `kept`, oldest first. It stays itself, whatever a clock
    that was turned back calls it."""
    stem = newest.rpartition("-")[0]
    pattern = re.compile(rf"{re.escape(stem)}-\d{{8}}T\d{{6}}Z\.zip\Z")
    others = sorted(name for name in names if name != newest and pattern.match(name))
    return others[: max(0, len(others) - (kept - 1))]


def read_back(file: Path) -> None:
    """Every byte of what was just written. Raises: CommandError, and then it is not there any more."""
    try:
        ArchiveReader(file).close()
    except (ArchiveFault, OSError) as fault:
        file.unlink(missing_ok=True)
        raise CommandError(f"what was written cannot be read back, and is removed: {fault}") from fault


def tidy(file: Path, kept: int, now_ms: int) -> list[str]:
    """Remove what is outdated beside a new backup, and what killed ones began; the names of the former."""
    names = [path.name for path in file.parent.iterdir() if path.is_file()]
    gone = outdated(names, file.name, kept)
    for name in gone:
        (file.parent / name).unlink(missing_ok=True)
    stem = file.name.rpartition("-")[0]
    for path in file.parent.glob(f".{stem}-*.tmp"):
        if path.stat().st_mtime * 1000 < now_ms - _ABANDONED_AFTER_MS:
            path.unlink(missing_ok=True)
    return gone
