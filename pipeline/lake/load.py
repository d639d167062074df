"""J1: topics of instances into Delta tables, every record exactly once (docs/adr/0013).

A pass takes a snapshot of the ends, drains up to there in bounded batches and stops. A batch is one Spark
job over many topics whose files no table knows; then every topic's share is one commit of its table. Between
the two each topic's id is looked up again: ids are never used twice, so what has the planned id after the
read had it all the time, and rows of a topic that was made anew cannot get into the old one's table.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

from pyspark.sql import SparkSession

from pipeline.again import again_and_again
from pipeline.errors import PipelineError
from pipeline.ingest.failures import is_from_store
from pipeline.ingest.offsets import SourceOffsets, UnreachableError
from pipeline.ingest.ranges import Bounds
from pipeline.ingest.staging import tasks_area
from pipeline.lake.compact import tidy
from pipeline.lake.drain import Drain
from pipeline.lake.plan import LoadSource, OnDataLoss, Pass, Refused, SourceLoad, TopicLoad, plan_source
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress

OFFSETS_PER_BATCH_MAX: Final = 1_000_000
_ASKED_AT_ONCE_MAX: Final = 16


@dataclass(frozen=True)
class LoadSettings:
    """How a load runs."""

    offsets_per_batch_max: int = OFFSETS_PER_BATCH_MAX
    """Bounds what a crash costs; files get smaller with it."""
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    tidy_s: float = 10.0
    """How long a pass may join small files of the tables that it has written; 0: not at all."""


class Totals(NamedTuple):
    """Sums over all topics."""

    rows: int = 0
    bytes: int = 0
    batches: int = 0
    offsets: int = 0
    lost: int = 0

    def plus(self, loads: Iterable[TopicLoad]) -> "Totals":
        """With those of another pass."""
        each = [(one.rows, one.bytes, one.batches, one.offsets, one.lost) for one in loads]
        return Totals(*(sum(column) for column in zip(self, *each, strict=True)))


class Loader:
    """Passes over the same instances. The session is asked for when there is something to read."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        layout: PipelineLayout,
        sources: Sequence[LoadSource],
        settings: LoadSettings,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._sources = [(source, SourceOffsets(source.kafka)) for source in sources]
        self._settings = settings
        self._progress = progress
        self._past = Totals()
        self._loaded: dict[str, Mapping[int, Bounds]] = {}

    def run(self) -> Pass:
        """One pass. What failed for a topic or an instance is in its entry; the others are loaded.

        Raises: PipelineError where no instance can be planned.
        """
        plans, refused = self._plans()
        loads = tuple(load for plan in plans for load in plan.topics.values())
        self._tell(loads, refused)
        if any(load.is_due for load in loads):
            with tasks_area(self._layout.lake_staging) as area:
                most, on_data_loss = self._settings.offsets_per_batch_max, self._settings.on_data_loss
                drains = deque(Drain(plan, self._spark, area, most, on_data_loss) for plan in plans)
                while drains:
                    drain = drains.popleft()
                    if drain.step():
                        drains.append(drain)
                    self._tell(loads, refused)
            self._tidy(loads)
        self._past = self._past.plus(loads)
        self._loaded = {load.topic.id: load.bounds for load in loads if not load.failure}
        return Pass(loads, refused)

    def _plans(self) -> tuple[list[SourceLoad], tuple[Refused, ...]]:
        """Plans of instances that answer, and why not of the others. Raises: PipelineError if none does."""
        with ThreadPoolExecutor(_ASKED_AT_ONCE_MAX) as pool:
            answers = list(pool.map(_answer, (offsets for _, offsets in self._sources)))
        plans, refused = [], []
        for (source, offsets), fault in zip(self._sources, answers, strict=True):
            try:
                if fault is not None:
                    raise fault
                on_data_loss = self._settings.on_data_loss
                plans.append(plan_source(source, offsets, self._layout, on_data_loss, self._loaded))
            except PipelineError as error:
                sentence = f"{source.state_now}{error.sentence}"
                refused.append(Refused(source.name, sentence, isinstance(error, UnreachableError)))
        if refused and not plans:
            kind = UnreachableError if any(each.is_passing for each in refused) else PipelineError
            sentence = Pass((), tuple(refused)).failures if len(refused) > 1 else refused[0].failure
            raise kind(sentence)
        return plans, tuple(refused)

    def _tidy(self, loads: Iterable[TopicLoad]) -> None:
        """A table that cannot be tidied was loaded all the same: `compact` says what is wrong with it."""
        until_s = time.monotonic() + self._settings.tidy_s
        for load in loads:
            if load.batches and time.monotonic() < until_s:
                try:
                    tidy(self._layout, load.path, datetime.now(UTC), until_s)
                except Exception as error:
                    if not isinstance(error, PipelineError | OSError) and not is_from_store(error):
                        raise

    def _tell(self, loads: Sequence[TopicLoad], refused: Sequence[Refused]) -> None:
        total = self._past.plus(loads)
        lag = sum(load.pending for load in loads)
        self._progress.planned(total.offsets + lag, "offsets")
        self._progress.done(total.offsets)
        self._progress.figures(
            rows=total.rows,
            bytes=total.bytes,
            batches=total.batches,
            lost_offsets=total.lost,
            lag_offsets=lag,
            topics=len(loads),
            failed_topics=sum(1 for load in loads if load.failure),
            failed_instances=len(refused),
        )

    def run_forever(self, every_s: float, say: Callable[[str], None]) -> NoReturn:
        """Pass after pass. What failed is said once and tried again; a tenant's failure ends no other's load.

        Raises: PipelineError when everything failed, and not for the moment.
        """

        def step() -> str:
            try:
                done = self.run()
            except UnreachableError as error:
                return error.sentence
            if done.is_hopeless:
                raise PipelineError(done.failures)
            return done.failures

        again_and_again(step, every_s, say)


def _answer(offsets: SourceOffsets) -> UnreachableError | None:
    """Why the instance does not answer, if it does not."""
    try:
        offsets.must_answer()
    except UnreachableError as error:
        return error
    return None
