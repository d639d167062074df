"""The mirror's driver: plans rounds of bounded work, has Spark do them, tells how far it is.

It decides nothing that exactly once rests on: each task takes its partition over and finds out itself where
it is. So a driver may die at any moment, and two of them do no harm.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.ingest.admin import LATEST
from pipeline.ingest.failures import is_from_spark, reason
from pipeline.mirror.clients import UnitWriter
from pipeline.mirror.cluster import Cluster
from pipeline.mirror.discovery import Discovery
from pipeline.mirror.groups import GroupTranslator, Translated
from pipeline.mirror.planning.errors import Fenced, Paused, Stopped, Unreachable
from pipeline.mirror.planning.progress import Progress
from pipeline.mirror.planning.tracks import (
    FENCED_MAX,
    SMALL_AT_ONCE,
    MirrorRequest,
    Plan,
    Track,
    bundled,
    due,
    lag_seconds,
    unfinished,
)
from pipeline.mirror.planning.units import Outcome, State
from pipeline.mirror.read_progress import ProgressReader, ensure_progress_topic
from pipeline.mirror.task import mirror_partition
from pipeline.progress import Progress as Shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S: Final = 1.0
_IDLE_S: Final = 0.3
_DISCOVER_EVERY_S: Final = 10.0
_GROUPS_EVERY_S: Final = 5.0
_PATIENCE_S: Final = 120.0
"""Without any progress a run that is not continuous gives up after this time."""
_FENCES_AT_ONCE: Final = 8
_OUTCOME: Final = "outcome"


@dataclass
class MirrorSummary:
    """How a run ended."""

    tracks: list[Track]
    refused: dict[str, str]
    """Topics that could not be mirrored at all, and why."""
    groups: list[Translated] = field(default_factory=list)

    @property
    def lag_seconds(self) -> int:
        """See `tracks.lag_seconds`."""
        return lag_seconds(self.tracks, _now_ms())

    @property
    def paused(self) -> list[str]:
        """Why some partitions wait, one sentence each."""
        return [*self.refused.values()] + [
            f"{track.unit}: {track.sentence}" for track in self.tracks if track.state == State.PAUSED
        ]


def mirror(
    spark: "Callable[[], SparkSession]",
    request: MirrorRequest,
    shown: Shown,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> MirrorSummary:
    """Mirror what was there at the start, or on and on until `stop`. Raises: PipelineError.

    Spark is started when all that can be wrong beforehand has been looked at.
    """
    try:
        with closing(_Driver(spark, request, shown, say)) as driver:
            return driver.run(stop)
    except (Unreachable, Paused, Fenced, Stopped) as error:
        raise PipelineError(str(error)) from error


class _Driver:
    def __init__(
        self,
        spark: "Callable[[], SparkSession]",
        request: MirrorRequest,
        shown: Shown,
        say: Callable[[str], None],
    ) -> None:
        self._session = spark
        self._request = request
        self._shown = shown
        self._say = say
        self._source = Cluster(request.source_address, "source")
        self._target = Cluster(request.target_address, "target")
        self._discovery = Discovery(request, self._source, self._target, say)
        self._groups = GroupTranslator(self._source, self._target, self._say_once)
        self._progress = Progress()
        self._reader = ProgressReader(self._target, self._progress)
        self._tracks: dict[str, Track] = {}
        self._carried: list[Translated] = []
        self._said: set[str] = set()
        self._moved_at = time.monotonic()
        self._discovered_at = self._grouped_at = float("-inf")

    def close(self) -> None:
        """Close connections."""
        self._reader.close()

    def run(self, stop: Callable[[], bool]) -> MirrorSummary:
        """Rounds until all is done."""
        ensure_progress_topic(self._target)
        self._look()
        for track in self._tracks.values():
            track.goal = track.end
        try:
            while not stop() and self._goes_on():
                pass
        except KeyboardInterrupt:
            if not self._request.continuous:
                raise
        self._carry_groups_over()
        self._show()
        return MirrorSummary(list(self._tracks.values()), self._discovery.refused, self._carried)

    def _goes_on(self) -> bool:
        """A round and what follows it; False when nothing is left to do."""
        try:
            worked = self._round()
            if self._request.continuous or unfinished(self._tracks.values()):
                self._look()
            elif not worked:
                self._check_ends()
                return False
        except Unreachable as error:
            self._try_again(str(error))
            worked = False
        if not worked:
            time.sleep(_IDLE_S)
        return True

    def _check_ends(self) -> None:
        """Raises: PipelineError where the source ends before what was mirrored of it."""
        for track in self._tracks.values():
            if track.position > track.end:
                raise PipelineError(
                    f"{track.unit} ends at {track.end} at the source, but was mirrored up to {track.position}"
                    ": the source lost records"
                )

    def _catch_up(self) -> None:
        """Read on in the progress; all tracks see it, for their tasks read only what comes behind."""
        self._reader.catch_up(wait=False)
        for track in self._tracks.values():
            position = self._progress.positions.get(track.unit.key)
            if position is not None:
                track.see(position)

    def _look(self) -> None:
        """What is new at the source and in the progress."""
        now = time.monotonic()
        self._catch_up()
        if now - self._discovered_at >= _DISCOVER_EVERY_S:
            self._discovery.look(self._progress, self._tracks)
            for sentence in self._discovery.refused.values():
                self._say_once(sentence)
            self._discovered_at = now
        topics = self._source.view({track.unit.topic for track in self._tracks.values()}).of
        same = {}
        for track in self._tracks.values():
            topic = topics.get(track.unit.topic)
            if topic is not None and topic.text_id == track.unit.topic_id:
                same[track.unit.topic, track.unit.partition] = track
            else:
                self._discovered_at = float("-inf")  # which says what became of it
        for place, end in self._source.offsets(same, LATEST, committed=True).items():
            same[place].extend(end)
        if self._request.groups and now - self._grouped_at >= _GROUPS_EVERY_S:
            self._carry_groups_over()
            self._grouped_at = time.monotonic()
        self._show()

    def _round(self) -> bool:
        """One bounded batch of work on every partition that has some; whether there was any."""
        chosen = due(self._tracks.values(), _now_ms(), continuous=self._request.continuous)
        if not chosen:
            return False
        self._settle(chosen)
        told = (self._request, self._discovery.target_id, self._progress.next_offset)
        plans = [Plan(track, *told) for track in chosen]
        session = self._session()
        with ThreadPoolExecutor(1) as runner:
            running = runner.submit(_spread, session, bundled(plans))
            try:
                while not running.done():
                    wait([running], timeout=_LOOK_EVERY_S)
                    self._follow()
            except BaseException:
                session.interruptAll()  # or leaving would wait for them
                raise
            outcomes = running.result()
        for outcome in outcomes:
            self._take(outcome)
        self._show()
        return True

    def _settle(self, chosen: list[Track]) -> None:
        """End what killed tasks left open in the progress topic: all others would wait for its timeout."""
        if self._reader.has_open():
            with ThreadPoolExecutor(_FENCES_AT_ONCE) as fences:
                list(fences.map(self._fence, chosen))
        self._catch_up()

    def _fence(self, track: Track) -> None:
        UnitWriter(self._request.target_address, track)

    def _follow(self) -> None:
        """Show the progress that running tasks commit."""
        try:
            self._catch_up()
        except Unreachable:
            return  # the tasks will say so
        self._show()

    def _take(self, outcome: Outcome) -> None:
        track = self._tracks[outcome.unit.key]
        if outcome.records or outcome.position > track.reached or outcome.state == State.DONE:
            self._moved_at = time.monotonic()
        track.take(outcome, _now_ms())
        if outcome.state == State.STOPPED:
            raise PipelineError(outcome.sentence)
        if outcome.state == State.FENCED and track.failures >= FENCED_MAX:
            raise PipelineError(f"{outcome.unit}: another mirror of this partition runs: stop one of them")
        if outcome.state == State.PAUSED:
            self._say_once(f"{outcome.unit} is paused: {outcome.sentence}")
        if outcome.state == State.RETRY:
            self._try_again(f"{outcome.unit}: {outcome.sentence}")

    def _try_again(self, sentence: str) -> None:
        """Say what is away. Raises: PipelineError when it stays away and nobody wants to wait for ever."""
        if not self._request.continuous and time.monotonic() - self._moved_at > _PATIENCE_S:
            raise PipelineError(f"nothing could be mirrored for {_PATIENCE_S:.0f} s: {sentence}")
        self._say_once(f"tried again: {sentence}")

    def _carry_groups_over(self) -> None:
        units = [track.unit for track in self._tracks.values()]
        if self._request.groups:
            self._catch_up()
            self._carried = self._groups.carry_over(list(self._request.groups), units, self._progress)

    def _show(self) -> None:
        tracks = self._tracks.values()
        continuous = self._request.continuous
        planned = done = 0
        for track in tracks:
            goal = track.end if continuous else track.goal
            planned += max(0, goal - track.start)
            done += max(0, (goal if track.drained else min(track.reached, goal)) - track.start)
        self._shown.planned(planned)
        self._shown.done(done)
        self._shown.figures(
            rows=sum(track.records for track in tracks),
            bytes=sum(track.bytes for track in tracks),
            filtered=sum(track.filtered for track in tracks),
            lost_offsets=sum(track.lost for track in tracks),
            lag_records=sum(track.lag for track in tracks),
            lag_seconds=lag_seconds(tracks, _now_ms()),
            paused_partitions=sum(track.state == State.PAUSED for track in tracks),
        )

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def _spread(spark: "SparkSession", bundles: Sequence[Sequence[Plan]]) -> list[Outcome]:
    """One Spark task for each bundle. Raises: Unreachable where one died, with what it had not committed."""
    numbers = spark.range(len(bundles), numPartitions=len(bundles))
    try:
        rows = numbers.mapInArrow(_task(bundles), f"{_OUTCOME} binary").collect()
    except Exception as error:
        if not is_from_spark(error):
            raise
        spark.range(1).collect()  # which fails where it is Spark that ended, not a task
        raise Unreachable(f"a Spark task died: {reason(error)}") from error
    return [msgspec.json.decode(row[_OUTCOME], type=Outcome) for row in rows]


def _task(
    bundles: Sequence[Sequence[Plan]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Plans go with the code of the task, which is shown nowhere: they may hold passwords."""

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with ThreadPoolExecutor(SMALL_AT_ONCE) as pool:
                    outcomes = pool.map(mirror_partition, bundles[number])
                told = [msgspec.json.encode(outcome) for outcome in outcomes]
                yield pa.RecordBatch.from_pydict({_OUTCOME: told})

    return run


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
