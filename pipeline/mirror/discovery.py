"""Which partitions there are to mirror: topics of the source, their copies, where each begins."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka.admin import NewTopic

from pipeline.errors import PipelineError
from pipeline.ingest.admin import EARLIEST, Configs, Topic
from pipeline.mirror.cluster import Cluster, Told
from pipeline.mirror.planning.errors import Paused
from pipeline.mirror.planning.progress import Progress
from pipeline.mirror.planning.tracks import MirrorRequest, Track
from pipeline.mirror.planning.units import Unit, is_mirrored, target_name
from pipeline.mirror.task import source_changed

_COPIED: Final = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
"""What says which records a topic keeps. message.timestamp.type is not among them: with LogAppendTime the
target would replace the timestamps that are mirrored."""
_LOG_APPEND_TIME: Final = "LogAppendTime"
_DEFAULT_BATCH_BYTES: Final = 1024 * 1024
_AS_THEY_COME: Final = "producer"
_UNCOMPRESSED: Final = "uncompressed"


class Discovery:
    """Looks again and again: topics and partitions come, and a topic that is made anew is another one."""

    def __init__(
        self, request: MirrorRequest, source: Cluster, target: Cluster, say: Callable[[str], None]
    ) -> None:
        self._request = request
        self._source = source
        self._target = target
        self._say = say
        self._topic_ids: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        """Topics that cannot be mirrored for now, and why."""
        self._source_id = source.cluster_id()
        self.target_id = target.cluster_id()
        if self._source_id == self.target_id:
            raise PipelineError("source and target are the same instance: a mirror needs two")

    def look(self, progress: Progress, tracks: dict[str, Track]) -> None:
        """Add what is new to the tracks. Raises: PipelineError where the source is not what it was."""
        request = self._request
        names = request.topics or [
            each for each in self._source.names() if is_mirrored(each, request.rename, request.target)
        ]
        view = self._source.view({*names, *self._topic_ids})
        tracked = Counter(track.unit.topic for track in tracks.values())
        new = {}
        for name in self._wanted(view):
            topic = view.of[name]
            if self._topic_ids.setdefault(name, topic.text_id) != topic.text_id:
                raise PipelineError(source_changed(name, exists=True))
            if tracked[name] < len(topic.partitions):
                new[name] = topic
        if new:
            self._add(new, progress, tracks)

    def _wanted(self, view: Told[Topic]) -> list[str]:
        request = self._request
        self.refused = {name: why for name, why in view.refused.items() if name in request.topics}
        for name in (*self._topic_ids, *request.topics):
            if name not in view.of and name not in view.refused:
                if name in self._topic_ids:
                    raise PipelineError(source_changed(name, exists=False))
                raise PipelineError(f"topic '{name}' is not at the source: see `portico topic list`")
        return [name for name in request.topics or sorted(view.of) if name in view.of]

    def _add(self, new: Mapping[str, Topic], progress: Progress, tracks: dict[str, Track]) -> None:
        """Track the partitions of topics that are new or have more of them; all are asked for together."""
        names = {name: target_name(self._request.rename, self._request.source, name) for name in new}
        at_source = self._source.configs(new)
        copies = self._copies(new, names, at_source, progress)
        known_ids = defaultdict(set)
        for one in progress.positions.values():
            known_ids[one.source_id, one.topic, one.target_topic, one.target_topic_id].add(one.topic_id)
        at_target = self._target.configs({names[name] for name in copies})
        starts = self._source.offsets(
            ((name, each) for name in copies for each in new[name].partitions), EARLIEST, committed=True
        )
        for name, copy in copies.items():
            topic, codec = new[name], _codec(at_source.of.get(name, {}))
            # The copy must not hold records of an earlier topic of the same name.
            if known_ids[self._source_id, name, copy.name, copy.text_id] - {topic.text_id}:
                raise PipelineError(source_changed(name, exists=True))
            if copy.name in at_target.refused:
                self.refused[name] = at_target.refused[copy.name]
                continue
            bytes_max = self._batch_bytes_max(copy.name, at_target.of[copy.name])
            for unit in self._units(topic, copy.name):
                start = starts.get((name, unit.partition))
                if unit.key in tracks or start is None:
                    continue
                track = Track(
                    unit, target_topic_id=copy.text_id, batch_bytes_max=bytes_max, codec=codec, start=start
                )
                if (position := progress.positions.get(unit.key)) is not None:
                    track.see(position)
                    track.start = track.reached
                tracks[unit.key] = track

    def _units(self, topic: Topic, target_topic: str) -> list[Unit]:
        return [
            Unit(self._source_id, topic.name, topic.text_id, each, target_topic) for each in topic.partitions
        ]

    def _copies(
        self,
        new: Mapping[str, Topic],
        names: Mapping[str, str],
        at_source: Told[Configs],
        progress: Progress,
    ) -> dict[str, Topic]:
        """Topics of the target with as many partitions as the source's, by the source's names."""
        there = self._target.view(set(names.values()))
        refused = there.refused
        made: dict[str, NewTopic] = {}
        wanted: dict[str, int] = {}
        for name, topic in new.items():
            copy_name = names[name]
            partitions = max(len(topic.partitions), wanted.get(copy_name, 0))
            found = there.of.get(copy_name)
            if found is not None and partitions > len(found.partitions):
                try:
                    self._grow(topic, found, progress)
                except Paused as error:
                    refused[copy_name] = str(error)
                wanted[copy_name] = partitions
            elif found is None and name in at_source.of and copy_name not in refused:
                configs = _copied(at_source.of[name])
                made[copy_name] = NewTopic(copy_name, partitions, -1, config=configs)
                wanted[copy_name] = partitions
        refused |= self._target.create(made)
        waited = self._target.wait_for({name: count for name, count in wanted.items() if name not in refused})
        copies, refused = there.of | waited.of, refused | waited.refused
        for name in new:
            if names[name] in refused:
                self.refused[name] = refused[names[name]]
            elif names[name] not in copies:
                self.refused[name] = at_source.refused[name]
        return {name: copies[names[name]] for name in new if name not in self.refused}

    def _grow(self, topic: Topic, copy: Topic, progress: Progress) -> None:
        """Where this mirror has written to the copy, partitions that it lacks were added at the source."""
        partitions = len(topic.partitions)
        if not any(unit.key in progress.positions for unit in self._units(topic, copy.name)):
            raise PipelineError(
                f"topic '{copy.name}' at the target has {len(copy.partitions)} partitions, '{topic.name}' at"
                f" the source has {partitions}: add partitions at the target, or mirror to another name"
                " with --rename"
            )
        self._target.grow(copy.name, partitions)

    def _batch_bytes_max(self, name: str, configs: Configs) -> int:
        """The largest batch that the copy takes."""
        if configs.get("message.timestamp.type", ("", False))[0] == _LOG_APPEND_TIME:
            self._say(
                f"topic '{name}' at the target has {_LOG_APPEND_TIME}: timestamps will be the target's own"
            )
        value, _ = configs.get("max.message.bytes", (None, False))
        return int(value) if value else _DEFAULT_BATCH_BYTES


def _copied(configs: Configs) -> dict[str, str]:
    return {
        key: value
        for key, (value, is_set) in configs.items()
        if key in _COPIED and is_set and value is not None
    }


def _codec(configs: Configs) -> str:
    """What the source's topic says of compression, empty where that is nothing."""
    value, is_set = configs.get("compression.type", (None, False))
    if not is_set or value is None or value == _AS_THEY_COME:
        return ""
    return "none" if value == _UNCOMPRESSED else value
