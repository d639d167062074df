"""Reads series for who asks: from what is recorded, or from a Prometheus where one is named (ADR 90)."""

import asyncio
from typing import NamedTuple

from tenants.prometheus import Prometheus, PrometheusAway
from tenants.rules import series_prometheus as rules
from tenants.rules.series import SPAN_MS_MAX, Columns, Kind, Span, with_step
from tenants.rules.series_prometheus import Note, Source
from tenants.usecases.series import Series


class Answer(NamedTuple):
    """Points of one series, all of one source."""

    span: Span
    columns: Columns
    source: Source
    note: Note | None = None
    """Why it is not what it might be."""


class Asked(NamedTuple):
    """Which series, by whom."""

    tenant: str
    owner: str
    """An instance of that tenant, or the deployment."""
    kind: Kind
    name: str


class SeriesReader:
    """An answer is of one source as a whole: of that which knows more of the time that is asked for."""

    def __init__(self, recorded: Series, prometheus: Prometheus | None) -> None:
        self._recorded = recorded
        self._prometheus = prometheus

    @property
    def longest_ms(self) -> int:
        """The longest time that may be asked for at once."""
        return SPAN_MS_MAX if self._prometheus is None else rules.SPAN_MS_MAX

    async def read(self, asked: Asked, span: Span, points: int, now_ms: int) -> Answer:
        """`span` has the step that is recorded of it. Raises: StoreFault."""
        columns = (
            await asyncio.to_thread(self._recorded.read, asked.owner, asked.kind, asked.name, span)
        ).columns
        recorded = Answer(span, columns, Source.RECORDED)
        finest = with_step(span.from_ms, span.to_ms, points)
        if self._prometheus is None or not rules.is_wanted(asked.kind, span, finest, now_ms):
            return recorded
        if not rules.has_series(asked.owner, asked.kind, asked.name):
            return recorded._replace(note=Note.LACKS)
        try:
            told = await self._prometheus.read(asked.tenant, asked.owner, asked.kind, asked.name, finest)
        except PrometheusAway as away:
            return recorded._replace(note=away.note)
        if rules.knows_less(told.columns, finest.step_ms, columns, span.step_ms):
            return recorded._replace(note=Note.KNOWS_LESS)
        return Answer(finest, told.columns, Source.PROMETHEUS, None if told.is_complete else Note.INCOMPLETE)
