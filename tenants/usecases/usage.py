"""What an instance used, from the pipeline's tables of usage."""

from dataclasses import dataclass
from typing import Final

from contracts.billing import SLOT_MS, USAGE_5M, USAGE_DAY, USAGE_HOUR
from tenants import tables
from tenants.tables import DeltaTables, Row
from tenants.usage import P95_SPAN_MS_MAX, Resolution, Span, p95

_COUNTS: Final = (
    "produce_bytes",
    "consume_bytes",
    "produce_requests",
    "consume_requests",
    "refused",
    "produce_throttled_ms",
    "consume_throttled_ms",
    "blocked_ms",
    "stored_byte_ms",
    "produce_recovered_bytes",
    "consume_recovered_bytes",
    "expected_ms",
    "covered_ms",
    "estimated",
)
_PEAKS: Final = ("produce_peak_5m_bytes_per_s", "consume_peak_5m_bytes_per_s")
_SLOT_S: Final = SLOT_MS // 1000
_OF: Final = {
    # (table, start of a row, columns beside those that all three have)
    Resolution.SLOT: (
        USAGE_5M,
        "to_unixtime(slot_start)",
        (f"produce_bytes / {_SLOT_S} as {_PEAKS[0]}", f"consume_bytes / {_SLOT_S} as {_PEAKS[1]}"),
    ),
    Resolution.HOUR: (USAGE_HOUR, "to_unixtime(hour_start)", (*_PEAKS, "state")),
    Resolution.DAY: (USAGE_DAY, "to_unixtime(day)", (*_PEAKS, "state")),
}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """95th percentiles of five-minute averages, by nearest rank."""

    produce_bytes_per_s: int
    consume_bytes_per_s: int


class UsageReports:
    """Reads usage. Answers are None while there is no table. Raises: Unavailable."""

    def __init__(self, source: DeltaTables) -> None:
        self._tables = source

    async def rows(self, instance_id: str, span: Span, resolution: Resolution) -> list[Row] | None:
        """Periods that begin in a span, oldest first; `at_s` says when. One without a row is not known."""
        table, start, more = _OF[resolution]
        months = ""
        if resolution is Resolution.DAY:  # partitioned by month
            months = f" and month between '{span.first_day:%Y-%m}' and '{span.last_day:%Y-%m}'"
        return await self._tables.select(
            table,
            f"select {start} as at_s, {', '.join((*_COUNTS, *more))} from {table} "
            f"where {_where(instance_id, span, start)}{months} order by at_s",
        )

    async def percentiles(self, instance_id: str, span: Span) -> Percentiles | None:
        """Over all five-minute slots of a span, those to come included; None of more than a month."""
        if span.to_ms - span.from_ms > P95_SPAN_MS_MAX or span.slots == 0:
            return None
        start = "to_unixtime(slot_start)"
        found = await self._tables.select(
            USAGE_5M,
            f"select produce_bytes, consume_bytes from {USAGE_5M} where {_where(instance_id, span, start)}",
        )
        if found is None:
            return None
        produce, consume = (
            p95([row[name] for row in found], max(span.slots, len(found)))
            for name in ("produce_bytes", "consume_bytes")
        )
        return Percentiles(produce // _SLOT_S, consume // _SLOT_S)


def _where(instance_id: str, span: Span, start: str) -> str:
    return (
        f"instance_id = {tables.text(instance_id)} "
        f"and day between {tables.day(span.first_day)} and {tables.day(span.last_day)} "
        f"and {start} * 1000 >= {span.from_ms} and {start} * 1000 < {span.to_ms}"
    )
