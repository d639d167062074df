"""J8: bills of months, their closing, and adjustments of closed months.

The usage that a bill is made from is one version of `usage_5m`, which the bill names; with the price version
it reproduces the bill. Usage is added up a part at a time; everything after that is a few thousand rows.

Closing is three commits: bills become `closing` and name their versions, their lines are written, bills
become `closed`. A run that finds `closing` bills goes on from their versions. Who writes is checked by the
ledger, so that no bill is closed twice and none that is closed changes.
"""

from typing import Final

from contracts.billing import BillState
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts import calendar
from pipeline.metering.billing_run import BillFigures, BillingRun, CloseFigures
from pipeline.metering.ledger import Ledger
from pipeline.metering.rollup import UsageTables
from pipeline.metering.versioned_tables import leases
from pipeline.progress import Progress, Silent

GRACE_MS: Final = 72 * 3_600_000
"""How long after its end a month waits for missing reports."""


def make_bills(
    layout: PipelineLayout,
    progress: Progress | None = None,
    *,
    now_ms: int,
    month: str | None = None,
    instance_id: str | None = None,
) -> BillFigures:
    """Bring bills of open months and adjustments of closed ones up to date with usage.

    Without a month: of all months whose usage changed. Raises: PipelineError.
    """
    if month is not None:
        calendar.first_day(month)
    if not UsageTables(layout).slots.exists():
        return BillFigures()
    ledger = Ledger(layout)
    with leases([ledger.bills], "the bills"):
        run = BillingRun(UsageTables(layout), ledger, progress or Silent(), now_ms)
        return run.make(month, instance_id)


def months_to_close(layout: PipelineLayout, now_ms: int, grace_ms: int = GRACE_MS) -> list[str]:
    """Months whose grace period is over and that have bills which are not closed; the oldest first."""
    bills = Ledger(layout).all_bills() if UsageTables(layout).slots.exists() else []
    not_closed = {bill.month for bill in bills if bill.state is not BillState.CLOSED}
    return sorted(month for month in not_closed if calendar.end_ms(month) + grace_ms <= now_ms)


def close_month(
    layout: PipelineLayout,
    progress: Progress | None = None,
    *,
    now_ms: int,
    month: str,
    grace_ms: int = GRACE_MS,
    force_with_gaps: bool = False,
    instance_id: str | None = None,
) -> CloseFigures:
    """Close bills of a month that is over: complete ones, and after the grace period all.

    Raises: PipelineError while the month is not over, or nothing was used in it.
    """
    if now_ms < calendar.end_ms(month):
        raise PipelineError(f"month {month} is not over (UTC): its bills close when it is")
    if not UsageTables(layout).slots.exists():
        raise PipelineError("there is no usage yet: run `portico pipeline meter run` first")
    ledger = Ledger(layout)
    with leases([ledger.bills], "the closing of a month"):
        run = BillingRun(UsageTables(layout), ledger, progress or Silent(), now_ms)
        return run.close(month, instance_id, grace_ms, force_with_gaps)
