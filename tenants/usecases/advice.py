"""What the pipeline advises, from its tables: the newest row of each instance."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, TypeVar

import msgspec

from contracts.advice import (
    ADVICE_TABLE,
    FORECAST_TABLE,
    MOVES_TABLE,
    SKEW_TABLE,
    AdviceRow,
    ForecastRow,
    MoveRow,
    SkewRow,
)
from tenants.pipeline_tables import DeltaTables, columns_of, converted, day, text

T = TypeVar("T", bound=msgspec.Struct)
_NEWEST_DAYS: Final = 31
"""Older advice is of a pipeline that no longer runs."""


class SkewSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How evenly traffic in one direction fell on brokers in the last 24 h of an advice."""

    run_date: date
    instance_id: str
    direction: str
    p_ratio_min: float | None
    """Lowest Pmin / Pmax."""
    share_of_time_uneven: float | None
    """Part of the time with traffic in which Pmin / Pmax was below 0.5."""
    usable_share: float | None
    """mean / max over brokers: an even split begins to throttle at T times this."""
    throttled_total_ms: int


@dataclass(frozen=True, slots=True)
class InstanceAdvice:
    """All that is advised to one instance."""

    advice: AdviceRow | None
    forecast: tuple[ForecastRow, ...] = ()
    skew: tuple[SkewRow, ...] = ()
    moves: tuple[MoveRow, ...] = ()


class AdviceReports:
    """Reads advice. Answers are None while there is no table. Raises: Unavailable."""

    def __init__(self, source: DeltaTables) -> None:
        self._tables = source

    async def newest(self, today: date) -> list[AdviceRow] | None:
        """The newest advice of every instance."""
        recent = f"run_date > {day(today - timedelta(days=_NEWEST_DAYS))}"
        return await self._newest(ADVICE_TABLE, AdviceRow, "instance_id", recent)

    async def skew(self, today: date) -> list[SkewSummary]:
        """Skew of every instance and direction."""
        recent = f"run_date > {day(today - timedelta(days=_NEWEST_DAYS))}"
        return await self._newest(SKEW_TABLE, SkewSummary, "instance_id, direction", recent) or []

    async def of_instance(self, instance_id: str, today: date) -> InstanceAdvice | None:
        """One instance with its forecast, skew and moves, all of the same run."""
        of_one = f"instance_id = {text(instance_id)}"
        recent = f"{of_one} and run_date > {day(today - timedelta(days=_NEWEST_DAYS))}"
        found = await self._newest(ADVICE_TABLE, AdviceRow, "instance_id", recent)
        if found is None:
            return None
        if not found:
            return InstanceAdvice(None)
        of_run = f"{of_one} and run_date = {day(found[0].run_date)}"
        return InstanceAdvice(
            found[0],
            await self._read(FORECAST_TABLE, ForecastRow, of_run, "metric"),
            await self._read(SKEW_TABLE, SkewRow, of_run, "direction desc"),
            await self._read(MOVES_TABLE, MoveRow, of_run, "step"),
        )

    async def _newest(self, table: str, kind: type[T], key: str, where: str) -> list[T] | None:
        ranked = f"row_number() over (partition by {key} order by run_date desc) as newest"
        columns = columns_of(kind)
        rows = await self._tables.rows(
            table,
            f"select {columns} from (select {columns}, {ranked} from {table} where {where}) where newest = 1",
            key,
        )
        return None if rows is None else converted(rows, kind)

    async def _read(self, table: str, kind: type[T], where: str, order: str) -> tuple[T, ...]:
        sql = f"select {columns_of(kind)} from {table} where {where}"
        rows = await self._tables.rows(table, sql, order)
        return tuple(converted(rows or [], kind))
