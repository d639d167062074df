"""Committed offsets of consumer groups, translated to the target and committed there.

A pair of the offset map says where to look; the lineage headers of the records say it exactly.
"""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from pipeline.mirror.clients import PartitionReader
from pipeline.mirror.cluster import EARLIEST, Cluster
from pipeline.mirror.planning.errors import Unreachable
from pipeline.mirror.planning.lineage import source_offset
from pipeline.mirror.planning.progress import Position, Progress
from pipeline.mirror.planning.units import Unit

_TIMEOUT_S: Final = 30.0
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
        self._said: set[str] = set()
        self._known: dict[tuple[str, int], int] = {}

    def carry_over(self, groups: list[str], units: list[Unit], progress: Progress) -> list[Translated]:
        """Commit at the target what the groups have committed at the source; returns the translations."""
        done = []
        for group in groups:
            try:
                done += self._carry_over(group, units, progress)
            except KafkaException as error:
                self._say_once(f"group '{group}' is not carried over: {error.args[0].str()}")
        return done

    def _carry_over(self, group: str, units: list[Unit], progress: Progress) -> list[Translated]:
        at_source = _committed(self._source.admin, group)
        at_target = _committed(self._target.admin, group)
        translated = []
        for unit in units:
            committed = at_source.get((unit.topic, unit.partition))
            position = progress.positions.get(unit.key)
            if committed is None or position is None or position.target_position < 0:
                continue
            offset = self._translate(unit, committed, position, progress)
            translated.append(Translated(group, unit.target_topic, unit.partition, committed, offset))
        ahead = [
            each
            for each in translated
            if each.target_offset > at_target.get((each.topic, each.partition), -1)
        ]
        if not at_source:
            self._say_once(f"group '{group}' has committed nothing at the source")
        if ahead:
            places = [TopicPartition(each.topic, each.partition, each.target_offset) for each in ahead]
            request = ConsumerGroupTopicPartitions(group, places)
            (future,) = self._target.admin.alter_consumer_group_offsets([request]).values()
            for place in future.result(_TIMEOUT_S).topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)
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
        reader = PartitionReader(self._target.address, *place, look_from)
        deadline = time.monotonic() + _LOOK_S
        try:
            while reader.position < position.target_position:
                for message in reader.read():
                    found = source_offset(message.headers(), unit.lineage)
                    if found is not None and found >= committed:
                        return int(message.offset())
                if time.monotonic() > deadline:
                    raise Unreachable(f"{unit.target_topic}-{unit.partition} of the target cannot be read")
        finally:
            reader.close()
        return position.target_position

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def _committed(admin: Any, group: str) -> dict[tuple[str, int], int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    places = future.result(_TIMEOUT_S).topic_partitions
    return {(place.topic, place.partition): place.offset for place in places if place.offset >= 0}
