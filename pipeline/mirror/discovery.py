"""Which partitions there are to mirror: topics of the source, their copies, where each begins."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from pipeline.errors import PipelineError
from pipeline.ingest.admin import EARLIEST, Topic
from pipeline.mirror.cluster import Cluster, View
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
Copied = Mapping[tuple[str, str, str, str], set[str]]
"""Ids of source topics, by source cluster, source topic, target topic and the target topic's id."""


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
        copied: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
        for one in progress.positions.values():
            copied[one.source_id, one.topic, one.target_topic, one.target_topic_id].add(one.topic_id)
        for name in self._wanted(view):
            topic = view.topics[name]
            if self._topic_ids.setdefault(name, topic.text_id) != topic.text_id:
                raise PipelineError(source_changed(name, exists=True))
            if tracked[name] < len(topic.partitions):
                try:
                    self._add(topic, progress, copied, tracks)
                except Paused as error:
                    self.refused[name] = str(error)

    def _wanted(self, view: View) -> list[str]:
        request = self._request
        self.refused = {name: why for name, why in view.refused.items() if name in request.topics}
        for name in (*self._topic_ids, *request.topics):
            if name not in view.topics and name not in view.refused:
                if name in self._topic_ids:
                    raise PipelineError(source_changed(name, exists=False))
                raise PipelineError(f"topic '{name}' is not at the source: see `portico topic list`")
        return [name for name in request.topics or sorted(view.topics) if name in view.topics]

    def _add(self, topic: Topic, progress: Progress, copied: Copied, tracks: dict[str, Track]) -> None:
        name = target_name(self._request.rename, self._request.source, topic.name)
        units = [
            Unit(self._source_id, topic.name, topic.text_id, partition, name)
            for partition in topic.partitions
        ]
        known = any(unit.key in progress.positions for unit in units)
        copy = self._copy_of(topic, name, known=known)
        # The copy must not hold records of an earlier topic of the same name.
        if copied[self._source_id, topic.name, name, copy.text_id] - {topic.text_id}:
            raise PipelineError(source_changed(topic.name, exists=True))
        bytes_max = self._look_at_configs(name)
        codec = self._codec(topic.name)
        starts = self._source.offsets(
            ((topic.name, unit.partition) for unit in units), EARLIEST, committed=True
        )
        for unit in units:
            start = starts.get((topic.name, unit.partition))
            if unit.key in tracks or start is None:
                continue
            track = Track(
                unit, target_topic_id=copy.text_id, batch_bytes_max=bytes_max, codec=codec, start=start
            )
            if (position := progress.positions.get(unit.key)) is not None:
                track.see(position)
                track.start = track.reached
            tracks[unit.key] = track

    def _copy_of(self, topic: Topic, name: str, *, known: bool) -> Topic:
        """The target topic with as many partitions as the source's. `known`: this mirror has written to it,
        so that partitions it lacks were added at the source."""
        partitions = len(topic.partitions)
        found = self._target.topic(name)
        if found is None:
            configs = {
                key: value
                for key, (value, is_set) in self._source.configs(topic.name).items()
                if key in _COPIED and is_set and value is not None
            }
            self._target.create(name, partitions, configs)
            return self._target.wait_for(name, partitions)
        if len(found.partitions) >= partitions:
            return found
        if not known:
            raise PipelineError(
                f"topic '{name}' at the target has {len(found.partitions)} partitions, '{topic.name}' at the"
                f" source has {partitions}: add partitions at the target, or mirror to another name"
                " with --rename"
            )
        self._target.grow(name, partitions)
        return self._target.wait_for(name, partitions)

    def _look_at_configs(self, name: str) -> int:
        """The largest batch that the copy takes."""
        configs = self._target.configs(name)
        if configs.get("message.timestamp.type", ("", False))[0] == _LOG_APPEND_TIME:
            self._say(
                f"topic '{name}' at the target has {_LOG_APPEND_TIME}: timestamps will be the target's own"
            )
        value, _ = configs.get("max.message.bytes", (None, False))
        return int(value) if value else _DEFAULT_BATCH_BYTES

    def _codec(self, name: str) -> str:
        """What the source's topic says of compression, empty where that is nothing."""
        try:
            value, is_set = self._source.configs(name).get("compression.type", (None, False))
        except Paused:
            return ""
        if not is_set or value is None or value == _AS_THEY_COME:
            return ""
        return "none" if value == _UNCOMPRESSED else value
