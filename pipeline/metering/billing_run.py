"""One run over bills: usage of months is read once, decisions are made, changed months are written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from contracts.billing import Adjustment, Bill, BillLine, BillState
from pipeline.errors import PipelineError
from pipeline.metering.amounts import bills as decide
from pipeline.metering.amounts.bills import Basis, MonthUsage
from pipeline.metering.amounts.slots import SETTLE_MS
from pipeline.metering.ledger import Ledger, by_instance
from pipeline.metering.month_usage import changed_months, month_usage, newest_batch
from pipeline.metering.price_book import priced_books
from pipeline.metering.rollup import UsageTables, rolled_up
from pipeline.progress import Progress

_Row = TypeVar("_Row", BillLine, Adjustment)


@dataclass(frozen=True)
class BillFigures:
    """What a run did."""

    months: tuple[str, ...] = ()
    """That it looked at."""
    bills: int = 0
    """Made or changed."""
    held: int = 0
    adjustments: int = 0


@dataclass(frozen=True)
class CloseFigures:
    """What a closing did."""

    closed: int
    closed_before: int
    waiting: tuple[tuple[str, str], ...]
    """(instance, why its bill is not closed)."""
    adjustments: int

    @classmethod
    def of(cls, parts: "Sequence[CloseFigures]") -> "CloseFigures":
        """Those of several closings together."""
        return cls(
            sum(each.closed for each in parts),
            sum(each.closed_before for each in parts),
            tuple(waiting for each in parts for waiting in each.waiting),
            sum(each.adjustments for each in parts),
        )


class BillingRun:
    """Holds what was read; whoever makes one has the lease on bills."""

    def __init__(self, tables: UsageTables, ledger: Ledger, progress: Progress, now_ms: int) -> None:
        self._slots = tables.slots
        self._ledger = ledger
        self._progress = progress
        self._now_ms = now_ms
        self._usage_version = tables.slots.version()
        self._heard_until_ms = rolled_up(tables.days).heard_until_ms
        self._books = priced_books(ledger, now_ms)
        self._bills = {(bill.month, bill.instance_id): bill for bill in ledger.all_bills()}
        self._adjustments = ledger.all_adjustments()
        self._usage: dict[tuple[int, str, str | None], dict[str, MonthUsage]] = {}
        self._batches: dict[int, int] = {}

    def make(self, month: str | None, instance_id: str | None) -> BillFigures:
        """Adjust closed bills and bring open ones up to date."""
        months = {month} if month else self._months_to_make()
        self._progress.planned(len(months), "months")
        for each in sorted({bill.month for bill in self._bills.values() if bill.state is BillState.CLOSING}):
            self._finish_closing(each)
        added = [row for each in sorted(months) for row in self._adjust(each, instance_id)]
        self._ledger.add_adjustments(added)
        self._adjustments += added
        months |= {each.bill_month for each in added}
        everything = month is None and instance_id is None
        changed = 0
        for done, each in enumerate(sorted(months), 1):
            changed += self._make_open(each, instance_id)
            self._progress.done(done)
        if everything:
            self._ledger.mark_billed(self._usage_version)
        held = sum(1 for bill in self._bills.values() if bill.hold_reason)
        self._progress.figures(bills=changed, adjustments=len(added), held=held)
        return BillFigures(tuple(sorted(months)), changed, held, len(added))

    def close(
        self, month: str, instance_id: str | None, grace_ms: int, force_with_gaps: bool
    ) -> CloseFigures:
        """Close what can be closed of a month that is over."""
        before = sum(1 for bill in self._of_month(month) if bill.state is BillState.CLOSED)
        made = self.make(month, instance_id)
        waiting = []
        now_closing = []
        for bill in self._of_month(month):
            if bill.state is not BillState.OPEN or instance_id not in (None, bill.instance_id):
                continue
            reason = decide.waits_for(
                bill,
                self._basis(month),
                settle_ms=SETTLE_MS,
                grace_ms=grace_ms,
                force_with_gaps=force_with_gaps,
            )
            if reason:
                waiting.append((bill.instance_id, reason))
            else:
                now_closing.append(decide.closing(bill, self._now_ms))
        if not self._of_month(month):
            raise PipelineError(f"nothing was used in {month}, so there is no bill to close")
        if now_closing:
            self._put(month, now_closing)
        closed = self._finish_closing(month)
        self._progress.figures(closed=closed, waiting=len(waiting))
        return CloseFigures(closed, before, tuple(waiting), made.adjustments)

    def _months_to_make(self) -> set[str]:
        """Months whose usage changed, or the prices of whose open bills did."""
        months = changed_months(self._slots, self._ledger.billed_usage_version())
        if months is None:
            months = {day[:7] for day in self._slots.rows_by_partition()}
        for bill in self._bills.values():
            book = decide.book_for(self._books, bill.month)
            if bill.state is BillState.OPEN and bill.price_version != (book.row.version if book else 0):
                months.add(bill.month)
        return months

    def _adjust(self, month: str, instance_id: str | None) -> list[Adjustment]:
        closed = [
            bill
            for bill in self._of_month(month)
            if bill.state is BillState.CLOSED
            and bill.usage_version < self._usage_version
            and instance_id in (None, bill.instance_id)
        ]
        if not closed:
            return []
        usage = self._usage_of(self._usage_version, month, instance_id)
        lines = by_instance(self._ledger.lines_of(month))
        earlier = by_instance(each for each in self._adjustments if each.month == month)
        found = []
        for bill in closed:
            own = {of: each for (of, instance), each in self._bills.items() if instance == bill.instance_id}
            found += decide.adjustments_of(
                bill,
                lines[bill.instance_id],
                earlier[bill.instance_id],
                usage.get(bill.instance_id, MonthUsage(bill.instance_id)),
                self._basis(month, bill),
                decide.adjusting_month(month, own),
            )
        return found

    def _make_open(self, month: str, instance_id: str | None) -> int:
        """Bills of the month that are not closed; how many are new or changed."""
        usage = self._usage_of(self._usage_version, month, instance_id)
        on_bill = by_instance(each for each in self._adjustments if each.bill_month == month)
        old_lines = by_instance(self._ledger.lines_of(month))
        wanted = set(usage) | set(on_bill) | {bill.instance_id for bill in self._of_month(month)}
        changed: list[Bill] = []
        lines: dict[str, list[BillLine]] = {}
        for each in sorted(wanted if instance_id is None else wanted & {instance_id}):
            old = self._bills.get((month, each))
            if old is not None and old.state is not BillState.OPEN:
                continue
            used = usage.get(each, MonthUsage(each))
            new_lines = decide.bill_lines(used, self._basis(month))
            new = decide.open_bill(used, new_lines, on_bill[each], self._basis(month), old)
            if old is None or not decide.same(old, old_lines[each], new, new_lines):
                changed.append(new)
                lines[each] = new_lines
        if changed:
            self._put_lines(month, lines)
            self._put(month, changed)
        return len(changed)

    def _finish_closing(self, month: str) -> int:
        """From the versions that closing bills name: their lines, and then they are closed."""
        found = [bill for bill in self._of_month(month) if bill.state is BillState.CLOSING]
        lines: dict[str, list[BillLine]] = {}
        for bill in found:
            usage = self._usage_of(bill.usage_version, month, None)
            used = usage.get(bill.instance_id, MonthUsage(bill.instance_id))
            lines[bill.instance_id] = decide.bill_lines(used, self._basis(month, bill, bill.usage_version))
            total = sum(line.amount_minor for line in lines[bill.instance_id])
            if total != bill.lines_minor:
                raise PipelineError(
                    f"the bill of {bill.instance_id} for {month} says {bill.lines_minor} and version "
                    f"{bill.usage_version} of usage makes {total}: see `portico pipeline reconcile`"
                )
        if found:
            self._put_lines(month, lines)
            self._put(month, [decide.closed(bill, self._now_ms) for bill in found])
        return len(found)

    def _put(self, month: str, changed: Iterable[Bill]) -> None:
        after = self._bills | {(month, bill.instance_id): bill for bill in changed}
        self._ledger.put_bills(month, [bill for (of, _), bill in sorted(after.items()) if of == month])
        self._bills = after

    def _put_lines(self, month: str, changed: dict[str, list[BillLine]]) -> None:
        kept = [line for line in self._ledger.lines_of(month) if line.instance_id not in changed]
        if (rows := kept + [line for each in changed.values() for line in each]) or kept:
            self._ledger.put_lines(month, rows)

    def _of_month(self, month: str) -> list[Bill]:
        return [bill for (of, _), bill in sorted(self._bills.items()) if of == month]

    def _usage_of(self, version: int, month: str, instance_id: str | None) -> dict[str, MonthUsage]:
        key = (version, month, instance_id)
        if key not in self._usage:
            self._usage[key] = month_usage(self._slots, version, month, instance_id)
        return self._usage[key]

    def _batch_of(self, version: int) -> int:
        if version not in self._batches:
            self._batches[version] = newest_batch(self._slots, version)
        return self._batches[version]

    def _basis(self, month: str, bill: Bill | None = None, usage_version: int | None = None) -> Basis:
        """What the month is billed by now, or by the prices of a bill that is closing or closed."""
        version = self._usage_version if usage_version is None else usage_version
        if bill is None:
            book = decide.book_for(self._books, month)
        else:
            [book] = [each for each in self._books if each.row.version == bill.price_version]
        return Basis(
            month=month,
            usage_version=version,
            source_batch=self._batch_of(version),
            heard_until_ms=self._heard_until_ms,
            book=book,
            now_ms=self._now_ms,
        )
