"""The master's metering: accepted reports in, usage records out to their topic.

Open intervals and records that are not acknowledged yet are kept in the journal, so that what a broker
carried in its last minute is told even if all processes are killed with it.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.quota import TrafficReport
from contracts.specs import ClusterSpec, InstanceSpec
from contracts.usage_records import UsageRecord
from master.journal import Journal
from master.usage.clock import UsageClock
from master.usage.records import UsageAggregator
from master.usage_writer import UsageWriter
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from runtime.upstream import Refused, Upstreams
from wire.client import SASL_USER

_log = get_logger(__name__)
_KEPT: Final = "usage_open"
_KEPT_MAX: Final = 20_000
_NOTHING: Final = "[]"


class Specs(Protocol):
    """What the feed says now."""

    @property
    def instances(self) -> Mapping[str, InstanceSpec]:
        """Instances by id."""

    @property
    def clusters(self) -> Mapping[str, ClusterSpec]:
        """Clusters by id."""


def _home(specs: Specs) -> ClusterSpec | None:
    """The cluster that holds the topic, as far as the feed has said."""
    home = specs.instances.get(SYSTEM_INSTANCE_ID)
    return specs.clusters.get(home.cluster_id) if home is not None else None


def _brokers_of_usage(specs: Specs) -> tuple[str, ...]:
    """HOST:PORT of its brokers; none while the feed does not say."""
    cluster = _home(specs)
    return tuple(f"{one.host}:{one.port}" for one in cluster.brokers) if cluster is not None else ()


def _login(cluster: ClusterSpec | None, secret: str | None, upstreams: Upstreams) -> dict[str, str]:
    """The deployment's secret is for our own brokers."""
    upstream = None if cluster is None else upstreams.of(cluster)
    if upstream is not None:
        try:
            return upstream.client_options()
        except Refused as refused:
            _log.warning("usage records cannot be written", reason=str(refused))
            return {}
    if secret is None:
        return {}
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": SASL_USER,
        "sasl.password": secret,
    }


class Metering:
    """The metering of one run of the master; single-threaded but for `save` and `close`."""

    def __init__(
        self,
        specs: Specs,
        journal: Journal,
        interval_ms: int,
        secret: str | None,
        upstreams: Upstreams,
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        wall_ms: Callable[[], int] = epoch_ms,
    ) -> None:
        self._journal = journal
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._clock = UsageClock(now_ms(), wall_ms())
        self._aggregator = UsageAggregator(lambda: specs.instances, interval_ms)
        self._writer = UsageWriter(
            lambda: _brokers_of_usage(specs),
            lambda: _login(_home(specs), secret, upstreams),
            self._aggregator.lost,
        )
        self._restored = self._restore()
        self._saved = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """Records by outcome."""
        return self._writer.counts

    def _time_ms(self) -> int:
        return self._clock.read(self._now_ms(), self._wall_ms())

    def _restore(self) -> list[UsageRecord]:
        """What the run before left to be told; told twice it has the same ids."""
        try:
            return msgspec.json.decode(self._journal.setting(_KEPT) or _NOTHING, type=list[UsageRecord])
        except msgspec.MsgspecError as error:
            _log.warning("kept usage records cannot be read; totals tell of them", error=str(error))
            return []

    def receive(self, report: TrafficReport) -> None:
        """A report that the ledger accepted."""
        self._aggregator.receive(report, self._time_ms())

    def tick(self) -> None:
        """Once a period: write what is due."""
        records, self._restored = self._restored, []
        self._writer.write([*records, *self._aggregator.take_records(self._time_ms())])

    def forget_point(self, point: str) -> None:
        """The broker is gone for good."""
        self._aggregator.forget_point(point)

    def unfinished(self) -> list[UsageRecord]:
        """What the journal should hold now; beyond a bound the totals of later records tell of the rest."""
        records = [*self._restored, *self._writer.pending, *self._aggregator.open_records()]
        return records[-_KEPT_MAX:]

    def save(self, records: list[UsageRecord]) -> None:
        """Write them to the journal. Blocks: call it from a worker thread."""
        content = msgspec.json.encode(records).decode()
        if content != self._saved:
            try:
                self._journal.set_setting(_KEPT, content)
            except SQLAlchemyError as error:
                _log.warning("open usage intervals cannot be kept in the journal", error=str(error))
                return
            self._saved = content

    def close(self) -> None:
        """Wait a moment for records under way. Blocks."""
        self._writer.close()
