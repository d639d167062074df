"""What `portico log scrub` found, on its way to the broker that serves the log: a file in the log directory.

The broker takes it when it starts or next looks (`LogManager.take_damage`), and removes it when its
own checkpoint of damage has been written.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from broker.log.damage import Damage, DamageKind
from broker.log.files import write_atomically

_PREFIX: Final = "scrub-"
_SUFFIX: Final = ".findings"


class ScrubFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records of one log that cannot be read as they were written."""

    topic: str
    partition: int
    topic_id: uuid.UUID
    first_offset: int
    next_offset: int

    @property
    def damage(self) -> Damage:
        return Damage(self.first_offset, self.next_offset, DamageKind.CONTENT)


def leave_findings(directory: Path, findings: Sequence[ScrubFinding]) -> None:
    """In a log directory, as one file that appears as a whole. Raises: OSError."""
    path = directory / f"{_PREFIX}{uuid.uuid4().hex}{_SUFFIX}"
    write_atomically(path, msgspec.json.encode(findings))


def read_findings(directory: Path) -> dict[Path, list[ScrubFinding]]:
    """Findings by their files; one that cannot be understood is put aside. Raises: OSError."""
    found: dict[Path, list[ScrubFinding]] = {}
    for path in sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}")):
        try:
            found[path] = msgspec.json.decode(path.read_bytes(), type=list[ScrubFinding])
        except msgspec.MsgspecError:
            path.rename(path.with_suffix(".unreadable"))
    return found


class TakenFindings:
    """Files of findings that logs know of. They go once the checkpoint of damage says the same."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()

    def take(self, directory: Path) -> list[ScrubFinding]:
        """What is new in a log directory. Raises: OSError."""
        found = read_findings(directory)
        new = [path for path in found if path not in self._paths]
        self._paths.update(new)
        return [finding for path in new for finding in found[path]]

    def held(self) -> list[Path]:
        """To be named to `remove` when what they say so far is on the disk."""
        return list(self._paths)

    def remove(self, paths: Sequence[Path]) -> None:
        """One that cannot be removed is tried again with the next checkpoint."""
        for path in paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)
                self._paths.discard(path)
