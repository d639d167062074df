"""Metering as one step of a command: the system instance's records into tables, usage, bills."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_records import USAGE_RAW, USAGE_TOPIC
from ctl.errors import CommandError
from ctl.pipeline.lineage import table, topic
from ctl.pipeline.run import JobRun, sentences
from pipeline.again import again_and_again
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pipeline.metering.batch import IngestFigures
    from pipeline.metering.billing_run import BillFigures
    from pipeline.metering.rollup import RollupFigures


class Metered(NamedTuple):
    """What a run of all three did."""

    ingest: "IngestFigures"
    rollup: "RollupFigures"
    bills: "BillFigures"


def ingest_into(
    run: JobRun, bootstrap: str | None = None, messages_per_batch_max: int | None = None
) -> "IngestFigures":
    """Records of topic `usage`, through the system instance's own vport.

    Raises: CommandError, PipelineError.
    """
    from pipeline.ingest.offsets import KafkaSource
    from pipeline.metering.ingest import MESSAGES_PER_BATCH_MAX, ingest

    if bootstrap is None:
        system = run.instance(SYSTEM_INSTANCE_ID)
        if system["state"] != "running" or not system["bootstrap_servers"]:
            raise CommandError(
                f"the system instance, which holds the usage records, is {system['state']}: "
                f"{system['state_reason'] or 'it has no vport yet, try again in some seconds'}"
            )
        bootstrap = str(system["bootstrap_servers"])
    run.lineage.moved(topic(bootstrap, USAGE_TOPIC), table(run.layout.table(USAGE_RAW)))
    return ingest(
        run.layout,
        KafkaSource(bootstrap),
        run.progress,
        now_ms=epoch_ms,
        messages_per_batch_max=messages_per_batch_max or MESSAGES_PER_BATCH_MAX,
    )


class MeterSteps:
    """Ingest, then usage of slots, hours and days, then bills of open months; once or again and again."""

    def __init__(self, run: JobRun, bootstrap: str | None = None) -> None:
        self._run = run
        self._bootstrap = bootstrap
        self._rollup = run.part("rollup", "usage")
        self._bills = run.part("bill", "open months")

    def take(self) -> Metered:
        """All three. Raises: CommandError, PipelineError."""
        from pipeline.metering.billing import make_bills
        from pipeline.metering.rollup import roll_up

        run = self._run
        ingested = ingest_into(run, self._bootstrap)
        rolled = roll_up(run.layout, self._rollup)
        return Metered(ingested, rolled, make_bills(run.layout, self._bills, now_ms=epoch_ms()))

    def take_forever(self, every_s: float, say: Callable[[str], None]) -> NoReturn:
        """Again and again. What fails is said once and tried again: each step goes on where it was."""
        failed = 0

        def step() -> str:
            nonlocal failed
            try:
                with sentences():
                    self.take()
            except CommandError as error:
                failed += 1
                self._run.progress.figures(failed=failed)
                return error.sentence
            return ""

        again_and_again(step, every_s, say)
