"""What `portico log scrub` found, on its way to the broker that serves the log: a file in the log directory.

The broker takes it when it next looks, or starts, and goes on from there: `LogManager.take_scrub_findings`.
"""

import uuid
from collections.abc import Sequence
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


def take_findings(directory: Path) -> list[ScrubFinding]:
    """Those that were left; a file that cannot be understood goes, too. Raises: OSError."""
    found: list[ScrubFinding] = []
    for path in sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}")):
        try:
            found += msgspec.json.decode(path.read_bytes(), type=list[ScrubFinding])
        except msgspec.MsgspecError:
            path.rename(path.with_suffix(".unreadable"))
            continue
        path.unlink()
    return found
