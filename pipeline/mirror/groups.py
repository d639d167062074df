"""Committed offsets of consumer groups, translated to the target and committed there.

A pair of the offset map says where to look; the lineage headers of the records say it exactly.
"""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Final, NamedTuple

from pipeline.ingest.admin import EARLIEST
from pipeline.mirror.clients import PartitionReader
from pipeline.mirror.cluster import Cluster
from pipeline.mirror.planning.errors import Paused, Unreachable
from pipeline.mirror.planning.lineage import source_offset
from pipeline.mirror.planning.progress import Position, Progress
from pipeline.mirror.planning.units import Unit

_LOOK_S: Final = 60.0


class Translated(NamedTuple):
    """One committed offset of a group."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int


class GroupTranslator:
    """Carries committed offsets of groups over, again and again."""

    def __init__(self, source: Cluster, target: Cluster, say: Callable[[str], None]) -> None:
        self._source = source
        self._target = target
        self._say = say
        """Tells people, once."""
        self._known: dict[tuple[str, int], int] = {}

    def carry_over(self, groups: list[str], units: list[Unit], progress: Progress) -> list[Translated]:
        """Commit at the target what the groups have committed at the source; returns the translations."""
        done = []
        for group in groups:
            try:
                done += self._carry_over(group, units, progress)
            except (Paused, Unreachable) as error:
                self._say(f"group '{group}' is not carried over: {error}")
        return done

    def _carry_over(self, group: str, units: list[Unit], progress: Progress) -> list[Translated]:
        at_source = self._source.committed(group)
        at_target = self._target.committed(group)
        translated = []
        for unit in units:
            committed = at_source.get((unit.topic, unit.partition))
            position = progress.positions.get(unit.key)
            if committed is None or position is None or position.target_position < 0:
                continue
            offset = self._translate(unit, committed, position, progress)
            translated.append(Translated(group, unit.target_topic, unit.partition, committed, offset))
        places = {(each.topic, each.partition): each.target_offset for each in translated}
        ahead = {place: offset for place, offset in places.items() if offset > at_target.get(place, -1)}
        if not at_source:
            self._say(f"group '{group}' has committed nothing at the source")
        if ahead:
            self._target.commit(group, ahead)
        return translated

    def _translate(self, unit: Unit, committed: int, position: Position, progress: Progress) -> int:
        """The target offset of the first record at or behind a source offset, within what is mirrored."""
        if committed >= position.position:
            return position.target_position
        known = self._known.get((unit.key, committed))
        if known is not None:
            return known
        pair = progress.pair_below(unit, committed)
        found = self._look(unit, committed, -1 if pair is None else pair.target_offset, position)
        self._known[unit.key, committed] = found
        return found

    def _look(self, unit: Unit, committed: int, look_from: int, position: Position) -> int:
        place = (unit.target_topic, unit.partition)
        look_from = max(look_from, self._target.offset(place, EARLIEST, committed=True))
        if look_from >= position.target_position:
            return position.target_position
        deadline = time.monotonic() + _LOOK_S
        with closing(PartitionReader(self._target.address, *place, look_from)) as reader:
            while reader.position < position.target_position:
                for message in reader.read():
                    found = source_offset(message.headers(), unit.lineage)
                    if found is not None and found >= committed:
                        return int(message.offset())
                if time.monotonic() > deadline:
                    raise Unreachable(f"{unit.target_topic}-{unit.partition} of the target cannot be read")
        return position.target_position
