"""J1: topics of instances into Delta tables, every record exactly once (docs/adr/0013).

A pass takes a snapshot of the ends, drains up to there in bounded batches and stops. A batch is one Spark
job over many topics whose files no table knows; then every topic's share is one commit of its table. Between
the two each topic's id is looked up again: ids are never used twice, so what has the planned id after the
read had it all the time, and rows of a topic that was made anew cannot get into the old one's table.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from pyspark.sql import SparkSession

from pipeline.again import again_and_again
from pipeline.errors import PipelineError
from pipeline.ingest.offsets import SourceOffsets, UnreachableError
from pipeline.ingest.staging import staging_area
from pipeline.lake.drain import Drain
from pipeline.lake.plan import LoadSource, OnDataLoss, TopicLoad, failures, plan_source
from pipeline.layout import PipelineLayout
from pipeline.progress import Progress

OFFSETS_PER_BATCH_MAX: Final = 1_000_000


@dataclass(frozen=True)
class LoadSettings:
    """How a load runs."""

    offsets_per_batch_max: int = OFFSETS_PER_BATCH_MAX
    """Bounds what a crash costs; files get smaller with it."""
    on_data_loss: OnDataLoss = OnDataLoss.FAIL


class Totals(NamedTuple):
    """Of all topics; `lag` is what still waits."""

    rows: int = 0
    bytes: int = 0
    batches: int = 0
    offsets: int = 0
    lost: int = 0
    lag: int = 0

    @classmethod
    def of(cls, loads: Iterable[TopicLoad]) -> "Totals":
        """Their sums."""
        each = [cls(one.rows, one.bytes, one.batches, one.offsets, one.lost, one.pending) for one in loads]
        return cls(*(sum(column) for column in zip(*each, strict=True)))

    def after(self, past: "Totals") -> "Totals":
        """With earlier passes; lag is that of now."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, past, strict=True)))._replace(
            lag=self.lag
        )


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

    def run(self) -> list[TopicLoad]:
        """One pass. What failed for a topic is in its entry; the others are loaded.

        Raises: PipelineError where nothing can go on.
        """
        settings = self._settings
        with ExitStack() as held:
            plans = [
                plan_source(source, offsets, self._layout, settings.on_data_loss, held)
                for source, offsets in self._sources
            ]
            loads = [load for plan in plans for load in plan.topics.values()]

            def tell() -> None:
                self._tell(loads)

            tell()
            if any(load.pending for load in loads):
                area = held.enter_context(staging_area(self._layout.staging))
                for plan in plans:
                    batches = settings.offsets_per_batch_max
                    Drain(plan, self._spark, area, batches, settings.on_data_loss).run(tell)
                tell()
        self._past = Totals.of(loads).after(self._past)
        return loads

    def _tell(self, loads: Sequence[TopicLoad]) -> None:
        total = Totals.of(loads).after(self._past)
        self._progress.planned(total.offsets + total.lag, "offsets")
        self._progress.done(total.offsets)
        self._progress.figures(
            rows=total.rows,
            bytes=total.bytes,
            batches=total.batches,
            lost_offsets=total.lost,
            lag_offsets=total.lag,
            topics=len(loads),
        )

    def run_forever(self, every_s: float, say: Callable[[str], None]) -> NoReturn:
        """Pass after pass. What may be gone by the next one is said once and tried again.

        Raises: PipelineError for what stays.
        """

        def step() -> str:
            try:
                loads = self.run()
            except UnreachableError as error:
                return error.sentence
            fault = failures(loads)
            if any(load.failure and not load.is_passing for load in loads):
                raise PipelineError(fault)
            return fault

        again_and_again(step, every_s, say)
