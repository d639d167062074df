"""Records series: every 15 s one packed step of all instances, by who holds the office (docs/adr/0079)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from contracts.quota_view import QuotaView
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.alarm_lags import Lags
from tenants.quota import QuotaSource
from tenants.rules import series, series_figures
from tenants.rules.client_sums import Taken, over_workers
from tenants.rules.errors import Unavailable
from tenants.rules.series import STEP_MS
from tenants.rules.series_figures import GroupFigure, Seen
from tenants.shared_ledger import SharedLedger
from tenants.store.engine import StoreFault
from tenants.store.shared_session import Office
from tenants.topic_figures import TopicFigures
from tenants.usecases.series import Series

_log = get_logger(__name__)
PENDING_MAX: Final = 40
"""Steps that wait for a database that does not work; then the oldest are lost."""


class SeriesRecorder:
    """The background task. A database that is full or locked loses history, and holds nobody up."""

    def __init__(
        self,
        kept: Series,
        quota: QuotaSource,
        gateways: SharedLedger,
        lags: Lags,
        topics: TopicFigures,
        office: Office,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Steps by what became of them: `kept`, `unknown` (the quota master did not answer), `lost`."""
        self._kept = kept
        self._quota = quota
        self._gateways = gateways
        self._lags = lags
        self.topics = topics
        self._office = office
        self._pending: dict[int, bytes] = {}
        self._failing = False

    async def run(self) -> None:
        """Record for ever."""
        while True:
            now_ms = epoch_ms()
            await asyncio.sleep((series.step_of(now_ms) + STEP_MS - now_ms) / 1000)
            if self._office.since_ms is None:
                self._pending.clear()  # whoever holds it now records the same steps
                self._gateways.take_sums(monotonic_ms())
                continue
            try:
                await self.record(epoch_ms())
            except Exception:  # noqa: BLE001 - a step that fails must not be the last
                _log.exception("a step of the series failed")

    async def record(self, now_ms: int) -> None:
        """One step."""
        at_ms = series.step_of(now_ms)
        sums = self._gateways.take_sums(monotonic_ms())
        try:
            views = (await self._quota.overview()).instances
        except Unavailable:
            self.counts["unknown"] += 1
        else:
            connections = {
                one.instance_id: self._gateways.connections(one.instance_id, monotonic_ms()) for one in views
            }
            self.topics.busy(one.instance_id for one in views if one.produce.rate_per_s > 0)
            self._pending[at_ms] = await asyncio.to_thread(self._packed, views, connections, sums, now_ms)
        while len(self._pending) > PENDING_MAX:
            del self._pending[min(self._pending)]
            self.counts["lost"] += 1
        try:
            await asyncio.to_thread(self._write, now_ms)
        except StoreFault as fault:
            if not self._failing:
                _log.warning("series wait: the database does not work", error=fault.reason)
            self._failing = True
        else:
            self._failing = False

    def _packed(
        self,
        views: tuple[QuotaView, ...],
        connections: Mapping[str, int],
        sums: Mapping[str, list[Taken] | None],
        now_ms: int,
    ) -> bytes:
        seen = {
            one.instance_id: Seen(
                one,
                connections[one.instance_id],
                *self.topics.of(one.instance_id, now_ms),
                self._groups(one.instance_id, now_ms),
                over_workers(sums.get(one.instance_id) or ()),
            )
            for one in views
        }
        return series.pack_step(series_figures.step(seen, views))

    def _groups(self, instance_id: str, now_ms: int) -> dict[str, GroupFigure]:
        """As far as they were told lately."""
        seen = self._lags.seen.get(instance_id)
        if seen is None or not seen.is_fresh(seen.at_ms, now_ms):
            return {}
        lags, ages = seen.lags, seen.ages or {}  # a look may take others meanwhile
        found = {}
        for name, one in lags.items():
            seconds = ages[name].seconds if name in ages else None
            found[name] = GroupFigure(one.records, None if seconds is None else round(seconds * 1000))
        return found

    def _write(self, now_ms: int) -> None:
        """In a thread. Raises: StoreFault."""
        for at_ms in sorted(self._pending):
            if not self._kept.keep(self._office, at_ms, self._pending[at_ms]):
                return
            del self._pending[at_ms]
            self.counts["kept"] += 1
        self._kept.settle(self._office, now_ms)
