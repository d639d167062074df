"""Price books, bills, lines and adjustments as kept: small tables, read as a whole, written with a check.

A write of bills says which version of the table it was decided from. When anybody else has written bills
since, it fails and changes nothing: that is the compare-and-set on (instance, month, state).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from contracts import billing
from contracts.billing import Adjustment, Bill, BillLine, BillState, PriceBook
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.versioned_tables import Table
from pipeline.schema import billing as schema
from pipeline.table_rows import read_rows

Row = TypeVar("Row", bound=msgspec.Struct)
_OfBill = TypeVar("_OfBill", Bill, BillLine, Adjustment)
_REVISION: Final = "bills"
"""Delta's `txn` name that every write of bills raises: two writers cannot both do it from one version."""
_USAGE: Final = "usage_5m"
"""Up to which version of usage all months have been billed or adjusted."""


class Ledger:
    """The four tables, as they were when they were last read or written here."""

    def __init__(self, layout: PipelineLayout) -> None:
        self.books = Table(layout.table(billing.PRICE_BOOK), schema.PRICE_BOOK)
        self.bills = Table(layout.table(billing.BILL), schema.BILL, "month")
        self.lines = Table(layout.table(billing.BILL_LINE), schema.BILL_LINE, "month")
        self.adjustments = Table(layout.table(billing.ADJUSTMENT), schema.ADJUSTMENT, "bill_month")
        for table in (self.books, self.bills, self.lines, self.adjustments):
            table.ensure()
        self._bills = DeltaTable(str(self.bills.path))

    def price_books(self) -> list[PriceBook]:
        """All versions, oldest first."""
        return sorted(_rows(DeltaTable(str(self.books.path)), PriceBook), key=lambda book: book.version)

    def add_price_book(self, book: PriceBook) -> None:
        """Append a version."""
        _write(DeltaTable(str(self.books.path)), self.books, [book], {"mode": "append"})

    def all_bills(self) -> list[Bill]:
        """Bills in the version that the next `put_bills` continues."""
        self._bills = DeltaTable(str(self.bills.path))
        return _rows(self._bills, Bill)

    def lines_of(self, month: str) -> list[BillLine]:
        """Lines of all instances."""
        return _rows(DeltaTable(str(self.lines.path)), BillLine, ("month", month))

    def all_adjustments(self) -> list[Adjustment]:
        """Adjustments of all months."""
        return _rows(DeltaTable(str(self.adjustments.path)), Adjustment)

    def billed_usage_version(self) -> int:
        """All months were billed or adjusted from this version of `usage_5m`; -1 before the first time."""
        found = self._bills.transaction_version(_USAGE)
        return -1 if found is None else int(found)

    def mark_billed(self, usage_version: int) -> None:
        """Say that all months were billed or adjusted from this version of usage."""
        if usage_version > self.billed_usage_version():
            self._commit(self._mark, [Transaction(_USAGE, usage_version)])

    def put_bills(self, month: str, bills: Sequence[Bill]) -> None:
        """All bills of a month, as changes of those that `all_bills` gave.

        Raises: PipelineError when bills were written by someone else meanwhile.
        """
        before = {each.instance_id: each for each in _rows(self._bills, Bill, ("month", month))}
        _must_be_moves(before, bills)
        self._commit(lambda marks: _write(self._bills, self.bills, bills, _month(month), marks))

    def _mark(self, marks: Sequence[Transaction]) -> None:
        self._bills.create_write_transaction(
            [],
            mode="append",
            schema=self._bills.schema(),
            partition_by=["month"],
            commit_properties=CommitProperties(app_transactions=list(marks)),
        )

    def _commit(
        self, write: Callable[[Sequence[Transaction]], None], marks: Sequence[Transaction] = ()
    ) -> None:
        """From the version that was read last, or not at all."""
        before = int(self._bills.version())
        revision = self._bills.transaction_version(_REVISION)
        try:
            write([Transaction(_REVISION, 0 if revision is None else revision + 1), *marks])
        except CommitFailedError as error:
            raise PipelineError(
                f"bills were written by another process meanwhile ({error}): nothing was changed, start again"
            ) from error
        self._bills = DeltaTable(str(self.bills.path))
        if self._bills.version() != before + 1:
            raise PipelineError("bills were written by another process meanwhile: start again")

    def put_lines(self, month: str, lines: Sequence[BillLine]) -> None:
        """All lines of a month."""
        _write(DeltaTable(str(self.lines.path)), self.lines, lines, _month(month))

    def add_adjustments(self, adjustments: Sequence[Adjustment]) -> None:
        """Append them, in one commit."""
        if adjustments:
            _write(DeltaTable(str(self.adjustments.path)), self.adjustments, adjustments, {"mode": "append"})


def _must_be_moves(before: dict[str, Bill], bills: Iterable[Bill]) -> None:
    """No bill vanishes, none that is closed changes, no closing one opens again."""
    after = {each.instance_id: each for each in bills}
    assert not set(before) - set(after), "a bill was lost"
    for instance_id, old in before.items():
        new = after[instance_id]
        assert old.state is not BillState.CLOSED or new == old, f"the closed bill of {instance_id} changed"
        assert old.state is not BillState.CLOSING or new.state is not BillState.OPEN, instance_id


def _month(month: str) -> dict[str, str]:
    return {"mode": "overwrite", "predicate": f"month = '{month}'"}


def _rows(table: DeltaTable, kind: type[Row], where: tuple[str, str] | None = None) -> list[Row]:
    found = read_rows(table, filters=[(where[0], "=", where[1])] if where else None)
    return msgspec.convert(found.to_pylist(), list[kind])  # type: ignore[valid-type]


def _write(
    table: DeltaTable,
    to: Table,
    rows: Sequence[msgspec.Struct],
    how: dict[str, Any],
    marks: Sequence[Transaction] = (),
) -> None:
    columns = [msgspec.structs.asdict(row) for row in rows]
    found = pa.Table.from_pylist(columns, schema=to.schema)
    write_deltalake(table, found, commit_properties=CommitProperties(app_transactions=list(marks)), **how)


def by_instance(rows: Iterable[_OfBill]) -> defaultdict[str, list[_OfBill]]:
    """Rows of bills, lines or adjustments."""
    found: defaultdict[str, list[_OfBill]] = defaultdict(list)
    for row in rows:
        found[row.instance_id].append(row)
    return found
