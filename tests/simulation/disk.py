"""What a power cut leaves of a node's logs: all that was synced, and any part of the rest, perhaps torn."""

import os
import random
from pathlib import Path

_TORN_BYTES_MAX = 64


class Disk:
    """Remembers how long each file was when it was last synced."""

    def __init__(self) -> None:
        self._synced: dict[Path, int] = {}

    def sync(self, fd: int) -> None:
        """The file is on the platter as it is."""
        self._synced[Path(f"/proc/self/fd/{fd}").readlink()] = os.fstat(fd).st_size

    def lose_power(self, directory: Path, chance: random.Random) -> int:
        """Forget what was not synced of append-only files; how many bytes went."""
        lost = 0
        for path in sorted(directory.glob("*/*")):
            if path.suffix not in (".log", ".index", ".timeindex", ".txnindex"):
                continue
            size = path.stat().st_size
            durable = min(self._synced.get(path, 0), size)
            kept = chance.randint(durable, size)
            with path.open("r+b") as file:
                file.truncate(kept)
                torn = min(kept - durable, chance.randint(0, _TORN_BYTES_MAX))
                if torn:
                    file.seek(kept - torn)
                    file.write(chance.randbytes(torn))
            lost += size - kept
        return lost
