"""Bills of instances, from the pipeline's tables."""

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from contracts.billing import ADJUSTMENT, BILL, BILL_LINE, Adjustment, Bill, BillLine
from tenants.pipeline_tables import DeltaTables, columns_of, converted, text

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class BillDetail:
    """One bill with what it is made of."""

    bill: Bill
    lines: tuple[BillLine, ...]
    adjustments: tuple[Adjustment, ...]
    """On this bill, of earlier months."""
    corrections: tuple[Adjustment, ...]
    """Corrections of this month, on later bills."""

    @property
    def adds_up(self) -> bool:
        """Not so while its lines or adjustments are being written anew."""
        lines = sum(one.amount_minor for one in self.lines)
        adjustments = sum(one.amount_delta_minor for one in self.adjustments)
        return (lines, adjustments) == (self.bill.lines_minor, self.bill.adjustments_minor)


class BillReports:
    """Reads bills. Answers are None while there is no table. Raises: Unavailable."""

    def __init__(self, source: DeltaTables) -> None:
        self._tables = source

    async def of_instance(self, instance_id: str) -> list[Bill] | None:
        """Every bill of an instance, the newest month first."""
        return await self._read(BILL, Bill, f"where instance_id = {text(instance_id)}", "month desc")

    async def of_month(self, month: str) -> list[Bill] | None:
        """Everybody's bills of a month."""
        return await self._read(BILL, Bill, f"where month = {text(month)}", "instance_id")

    async def months(self) -> dict[str, set[str]] | None:
        """Month -> ids of the instances with a bill, over everybody."""
        rows = await self._tables.rows(BILL, f"select distinct month, instance_id from {BILL}")
        if rows is None:
            return None
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["month"], set()).add(row["instance_id"])
        return found

    async def detail(self, instance_id: str, month: str) -> BillDetail | None:
        """One bill in full; None where there is none. Its lines may be written anew just now: it is read
        again until bill and lines belong together."""
        for _ in range(3):
            of_one = f"instance_id = {text(instance_id)} and month = {text(month)}"
            bills = await self._read(BILL, Bill, f"where {of_one}")
            if not bills:
                return None
            bill = bills[0]
            of_version = f"usage_version = {bill.usage_version} and price_version = {bill.price_version}"
            lines = await self._read(BILL_LINE, BillLine, f"where {of_one} and {of_version}") or []
            if sum(one.amount_minor for one in lines) == bill.lines_minor:
                break
        of_instance = f"instance_id = {text(instance_id)}"
        adjustments = await self._read(
            ADJUSTMENT,
            Adjustment,
            f"where {of_instance} and (bill_month = {text(month)} or month = {text(month)})",
            "bill_month, month, dimension, created_at_ms",
        )
        return BillDetail(
            bill,
            tuple(lines),
            tuple(one for one in adjustments or () if one.bill_month == month),
            tuple(one for one in adjustments or () if one.bill_month != month),
        )

    async def details(self, month: str, ids: Container[str]) -> list[BillDetail]:
        """The bills of a month of some instances, in full but for corrections. Read again as one is."""
        for _ in range(3):
            found = await self._details(month, ids)
            if all(one.adds_up for one in found):
                break
        return found

    async def _details(self, month: str, ids: Container[str]) -> list[BillDetail]:
        bills = await self.of_month(month) or []
        of_month = f"where month = {text(month)}"
        lines = await self._read(BILL_LINE, BillLine, of_month, "instance_id, dimension") or []
        on_bill = f"where bill_month = {text(month)}"
        order = "instance_id, month, dimension, created_at_ms"
        adjustments = await self._read(ADJUSTMENT, Adjustment, on_bill, order) or []
        lines_of: dict[tuple[str, int, int], list[BillLine]] = {}
        for line in lines:
            made_of = (line.instance_id, line.usage_version, line.price_version)
            lines_of.setdefault(made_of, []).append(line)
        adjustments_of: dict[str, list[Adjustment]] = {}
        for one in adjustments:
            adjustments_of.setdefault(one.instance_id, []).append(one)
        return [
            BillDetail(
                bill,
                tuple(lines_of.get((bill.instance_id, bill.usage_version, bill.price_version), ())),
                tuple(adjustments_of.get(bill.instance_id, ())),
                corrections=(),
            )
            for bill in bills
            if bill.instance_id in ids
        ]

    async def _read(self, table: str, kind: type[T], where: str, order: str = "") -> list[T] | None:
        rows = await self._tables.rows(table, f"select {columns_of(kind)} from {table} {where}", order)
        return None if rows is None else converted(rows, kind)
