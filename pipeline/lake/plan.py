"""What a load has to do: every topic with its table, the offsets that wait, and what stands in the way."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from pipeline.errors import PipelineError
from pipeline.ingest.admin import Topic
from pipeline.ingest.commits import BatchDocument, IngestTable, OvertakenError, TableSpec
from pipeline.ingest.lease import LeasedError
from pipeline.ingest.offsets import KafkaSource, SourceOffsets, UnreachableError
from pipeline.ingest.ranges import (
    RECORD_BYTES_GUESS,
    Bounds,
    PartitionRange,
    beginnings,
    plan_topic,
    total_offsets,
    without,
)
from pipeline.layout import PipelineLayout
from pipeline.schema.lake import LAKE, LAKE_PARTITION_BY
from pipeline.store import AnyPath

TABLES_AT_ONCE: Final = 16
"""What an object store is asked about tables takes its time, and thousands in a row would take hours."""
_PASSING: Final = (LeasedError, OvertakenError, UnreachableError)
_FAILURES_SHOWN: Final = 3


class OnDataLoss(StrEnum):
    """When retention has removed records before they were loaded."""

    FAIL = "fail"
    SKIP = "skip"


class LoadSource(NamedTuple):
    """An instance whose topics are loaded."""

    instance_id: str
    name: str
    kafka: KafkaSource
    topics: tuple[str, ...] | None
    """None: all it has."""
    state_now: str = ""
    """In front of the reason why it does not answer, where the console knows one: `it is suspended; `."""


@dataclass
class TopicLoad:
    """One topic in a run: where it stands, and what was done."""

    source: LoadSource
    topic: Topic
    path: AnyPath
    bounds: Mapping[int, Bounds]
    """What the brokers have: up to there the run loads."""
    table: IngestTable | None = None
    """None before the first load."""
    record_bytes: float = RECORD_BYTES_GUESS
    waiting: tuple[PartitionRange, ...] = ()
    gaps: tuple[PartitionRange, ...] = ()
    """To be passed over by the next commit."""
    begins: tuple[PartitionRange, ...] = ()
    """To be named by the next commit, which is the table's first."""
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    offsets: int = 0
    lost: int = 0
    failure: str = ""
    is_passing: bool = False
    """The failure may be gone at the next try."""

    @property
    def app(self) -> str:
        """Whose positions in the table are ours."""
        return lake_app(self.topic.id)

    @property
    def pending(self) -> int:
        """Offsets that are still to be committed."""
        return total_offsets(self.waiting) + total_offsets(self.gaps)

    def fail(self, sentence: str, *, is_passing: bool = False) -> None:
        """Do no more for this topic; others go on."""
        self.failure, self.is_passing = sentence, is_passing
        self.waiting = self.gaps = self.begins = ()

    @property
    def is_due(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.waiting or self.gaps or self.begins)

    @property
    def spec(self) -> TableSpec:
        """How its table is made."""
        description = f"topic {self.topic.name} of instance {self.source.instance_id}, id {self.topic.id}"
        return TableSpec(LAKE, LAKE_PARTITION_BY, description)

    @property
    def next_batch(self) -> int:
        """The number of the batch to come."""
        return 0 if self.table is None else self.table.batch(self.app) + 1

    def committed(self, document: BatchDocument) -> None:
        """A batch is in the table."""
        self.waiting = without(self.waiting, document.ranges)
        self.gaps = self.begins = ()
        self.rows += document.rows
        self.bytes += document.bytes
        self.batches += 1
        self.offsets += total_offsets(document.ranges) + total_offsets(document.gaps)
        self.lost += total_offsets(document.gaps)
        if document.rows:
            self.record_bytes = max(1.0, document.bytes / document.rows)


def lake_app(topic_id: str) -> str:
    """The name of the loader's positions in a lake table."""
    return f"lake/{topic_id}"


class SourceLoad(NamedTuple):
    """One instance in a run."""

    offsets: SourceOffsets
    topics: Mapping[str, TopicLoad]


def plan_source(
    source: LoadSource,
    offsets: SourceOffsets,
    layout: PipelineLayout,
    on_data_loss: OnDataLoss,
    loaded: Mapping[str, Mapping[int, Bounds]],
) -> SourceLoad:
    """Ask for topics and offsets, look at their tables. Nothing is made or held.

    `loaded`: by topic id, what an earlier pass has brought to the end. As long as the brokers have no more,
    the table is not looked at: in an object store each look is paid for.
    Raises: PipelineError when Kafka does not answer or a named topic does not exist.
    """
    topics = offsets.topics(source.topics)
    if missing := [name for name in source.topics or () if name not in topics]:
        raise PipelineError(
            f"instance {source.name} has no topic {', '.join(repr(name) for name in missing)}: see "
            f"`portico topic list {source.name}`"
        )
    bounds = offsets.bounds(topics.values())
    loads = {
        name: TopicLoad(source, topic, layout.lake(source.instance_id, name, topic.id), bounds.get(name, {}))
        for name, topic in topics.items()
    }

    def look(load: TopicLoad) -> None:
        load.table = IngestTable.find(load.path, load.spec)
        plan_waiting(load, on_data_loss)

    each_of(look, [one for one in loads.values() if loaded.get(one.topic.id) != one.bounds])
    return SourceLoad(offsets, loads)


def each_of(work: Callable[[TopicLoad], None], loads: Iterable[TopicLoad]) -> None:
    """Some at once; a table that stands in the way stops no other."""

    def tried(load: TopicLoad) -> None:
        try:
            work(load)
        except PipelineError as error:
            load.fail(error.sentence, is_passing=isinstance(error, _PASSING))

    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        list(pool.map(tried, loads))


def plan_waiting(load: TopicLoad, on_data_loss: OnDataLoss) -> None:
    """From the table's positions to the brokers' ends, or the failure that stands in the way.

    A table without a commit begins where it was planned first: what goes after that is lost, too.
    """
    bounds, table = load.bounds, load.table
    if load.next_batch:
        load.begins = ()
    elif not load.begins:
        load.begins = beginnings(bounds)
    begun = {each.partition: each.start for each in load.begins}
    positions = {} if table is None else table.positions(load.app, bounds)
    found = plan_topic(begun | positions, bounds)
    load.waiting, load.gaps = found.ranges, found.gaps
    if found.regressed:
        lost = found.regressed[0]
        load.fail(
            f"topic {load.topic.name}: partition {lost.partition} ends at offset {lost.start}, but "
            f"{lost.end} is the next one to load: the cluster has lost records or is just electing a leader; "
            f"load again, and if it stays so, move {load.path} away to load the topic anew"
        )
    elif found.gaps and on_data_loss is OnDataLoss.FAIL:
        gap = found.gaps[0]
        load.fail(
            f"topic {load.topic.name}: retention removed {total_offsets(found.gaps)} offsets before they "
            f"were loaded (partition {gap.partition}: {gap.start} to {gap.end - 1}): load with "
            "--on-data-loss skip to go on behind them"
        )


class Refused(NamedTuple):
    """An instance of which nothing could be planned."""

    instance: str
    failure: str
    is_passing: bool
    """Whether it passes by itself, like a topic's failure."""


class Pass(NamedTuple):
    """What became of one pass over instances: a failure of one concerns no other."""

    loads: tuple[TopicLoad, ...]
    refused: tuple[Refused, ...] = ()

    @property
    def failures(self) -> str:
        """One sentence of all that failed, or nothing."""
        found = [f"instance {each.instance}: {each.failure}" for each in self.refused]
        found += [load.failure for load in self.loads if load.failure]
        more = len(found) - _FAILURES_SHOWN
        shown = "; ".join(found[:_FAILURES_SHOWN])
        return f"{shown}; and {more} more failed" if more > 0 else shown

    @property
    def is_hopeless(self) -> bool:
        """Whether all failed, and not for the moment: another pass would find nothing to load either."""
        stays = [not each.is_passing for each in self.refused]
        stays += [bool(load.failure) and not load.is_passing for load in self.loads]
        return bool(stays) and all(stays)
