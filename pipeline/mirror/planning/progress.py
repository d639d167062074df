"""How far a mirror is, and which offsets belong together: records of a compacted topic at the target.

One key per unit tells its newest progress; it is written in the transaction of the data it tells of. Further
keys, one per unit and stretch of source offsets, keep pairs of offsets for consumer groups: compaction thins
them out by itself. What is here decides; `read_progress` does the reading.
"""

from typing import Final

import msgspec

from pipeline.mirror.planning.errors import Paused
from pipeline.mirror.planning.units import Unit

PROGRESS_TOPIC: Final = "__mirror_progress"
PROGRESS_PARTITION: Final = 0
PAIR_STRETCH_OFFSETS: Final = 50_000
"""One pair is kept for each stretch of so many source offsets."""
_PAIR: Final = "#"


class Position(Unit, frozen=True, kw_only=True):
    """The newest progress of a unit."""

    version: int = 1
    source: str
    """What the source was called on the command line."""
    target_topic_id: str
    position: int
    """Everything below this source offset has been mirrored."""
    target_position: int
    """Everything mirrored lies below this target offset."""
    timestamp_ms: int
    """Time of the newest record that was mirrored, -1 where there is none yet."""


class Pair(msgspec.Struct, frozen=True):
    """Every record of a source offset below `source_offset` lies below `target_offset` at the target."""

    source_offset: int
    target_offset: int


class Progress:
    """What the progress topic tells, as far as it has been read."""

    def __init__(self) -> None:
        self.positions: dict[str, Position] = {}
        self._pairs: dict[str, dict[int, Pair]] = {}
        self.next_offset = 0
        """The next offset of the progress topic."""

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record. Raises: Paused for what no mirror wrote."""
        self.next_offset = offset + 1
        if value is None:
            return
        try:
            name, _, stretch = (key or b"").decode().partition(_PAIR)
            if stretch:
                self._pairs.setdefault(name, {})[int(stretch)] = msgspec.json.decode(value, type=Pair)
            else:
                self.positions[name] = msgspec.json.decode(value, type=Position)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Paused(
                f"{PROGRESS_TOPIC} of the target holds at offset {offset} what no mirror wrote"
                f" ({error}): delete that topic and the copies, and mirror anew"
            ) from error

    def pair_below(self, unit: Unit, source_offset: int) -> Pair | None:
        """The nearest pair at or below a source offset."""
        stretches = self._pairs.get(unit.key, {})
        below = [pair for pair in stretches.values() if pair.source_offset <= source_offset]
        return max(below, default=None, key=lambda pair: pair.source_offset)


def progress_records(position: Position, pair: Pair | None) -> list[tuple[bytes, bytes]]:
    """Keys and values of what is written of a step forward."""
    key = position.key
    records = [(key.encode(), msgspec.json.encode(position))]
    if pair is not None:
        stretch = f"{key}{_PAIR}{pair.source_offset // PAIR_STRETCH_OFFSETS}"
        records.append((stretch.encode(), msgspec.json.encode(pair)))
    return records
