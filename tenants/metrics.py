"""The control plane's Prometheus metrics, made at scrape time."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contracts.upstream import ClusterTrouble
from runtime.clock import epoch_ms, monotonic_ms
from tenants.console import Console
from tenants.rules.alarms import AlarmKind
from tenants.rules.lifecycle import State
from tenants.store import instances
from tenants.store.engine import StoreFault


class ConsoleCollector(Collector):
    """Reads the store from the thread that scrapes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def collect(self) -> Iterator[Metric]:
        """Instances by state, and how far the feed's followers are; without the database the rest."""
        try:
            stored = [*self._by_state(), *self._kept()]
        except StoreFault:
            stored = []
        yield GaugeMetricFamily("portico_store_up", "1: the database answers", value=float(bool(stored)))
        yield from stored
        yield GaugeMetricFamily(
            "portico_control_runs_jobs",
            "1: purges and other jobs are this control process's",
            value=float(self._console.office.since_ms is not None),
        )
        moved = self._console.shared is not None and bool(self._console.shared.schema_moved)
        yield GaugeMetricFamily(
            "portico_store_schema_ahead", "1: a newer release migrated the database", value=float(moved)
        )
        yield from self._clusters()
        yield self._late()
        yield from self._followers()
        known, forgotten = self._console.client_reports.counts()
        yield GaugeMetricFamily(
            "portico_client_reports",
            "Clients of all instances whose own metrics are remembered",
            value=known,
        )
        yield CounterMetricFamily(
            "portico_client_reports_forgotten", "Clients that had to make room for others", value=forgotten
        )
        yield GaugeMetricFamily(
            "portico_console_streams_open", "Live views open", value=len(self._console.streams)
        )
        counted = CounterMetricFamily(
            "portico_usage_counted", "Usage records that are counted by the hour, or not", labels=["outcome"]
        )
        for outcome, number in self._console.usage_counter.counts.copy().items():
            counted.add_metric([outcome], number)
        yield counted
        yield self._messages()
        steps = CounterMetricFamily(
            "portico_series_steps", "Steps of 15 s that were recorded, or not", labels=["outcome"]
        )
        for outcome, number in self._console.series_recorder.counts.copy().items():
            steps.add_metric([outcome], number)
        yield steps
        yield GaugeMetricFamily(
            "portico_usage_counted_until_timestamp_seconds",
            "Up to when usage is counted by this process; 0: it has counted none",
            value=self._console.usage_counter.until_ms / 1000,
        )

    def _by_state(self) -> Iterator[Metric]:
        with self._console.store.read() as connection:
            counts = instances.count_by_state(connection)
            named = instances.all_names(connection, None)
        by_state = GaugeMetricFamily("portico_instances", "Instances by state", labels=["state"])
        for state in State:
            by_state.add_metric([state.value], counts.get(state.value, 0))
        yield by_state
        yield _info(named)
        yield self._alarms()

    def _alarms(self) -> Metric:
        raised = self._console.alarms.raised_by_kind()
        family = GaugeMetricFamily(
            "portico_alarms_raised", "Alarms that are raised, by kind", labels=["kind"]
        )
        for kind in AlarmKind:
            family.add_metric([kind.value], raised.get(kind.value, 0))
        return family

    def _messages(self) -> Metric:
        family = CounterMetricFamily(
            "portico_alarm_messages",
            "Attempts to tell of an alarm: delivered; failed, and tried again; refused for good; held, as an "
            "hour's mails were sent",
            labels=["kind", "outcome"],
        )
        runners = (self._console.webhook_runner, self._console.mail_runner)
        for runner in (one for one in runners if one is not None):
            for outcome, number in runner.counts.copy().items():
                family.add_metric([runner.kind.value, outcome], number)
        return family

    def _late(self) -> Metric:
        """One figure of an instance, however many groups it has."""
        family = GaugeMetricFamily(
            "portico_group_lag_seconds",
            "Age of the oldest record that a group of the instance has not consumed, where the alarm "
            "lag_seconds is on, by the control process that runs jobs",
            labels=["instance"],
        )
        if self._console.office.since_ms is not None:
            for instance_id, seconds in self._console.alarm_lags.latest(epoch_ms()).items():
                family.add_metric([instance_id], seconds)
        return family

    def _clusters(self) -> Iterator[Metric]:
        """Those of Apache Kafka; brokers of our own tell of themselves."""
        up = GaugeMetricFamily(
            "portico_cluster_up",
            "1: the console and gateways can use an Apache Kafka",
            labels=["cluster"],
        )
        trouble = GaugeMetricFamily(
            "portico_cluster_trouble", "1 for why a cluster cannot be used", labels=["cluster", "cause"]
        )
        for cluster_id in sorted(dict(self._console.apaches.seen)):
            ill = self._console.illness(cluster_id)
            up.add_metric([cluster_id], float(ill is None))
            for cause in ClusterTrouble:
                trouble.add_metric([cluster_id, cause.value], float(ill is not None and ill.cause is cause))
        yield from (up, trouble)

    def _followers(self) -> Iterator[Metric]:
        feed = self._console.feed
        yield GaugeMetricFamily("portico_feed_revision", "Newest revision of the feed", value=feed.revision)
        applied = GaugeMetricFamily(
            "portico_feed_applied_revision", "What followers have applied", labels=["consumer", "kind"]
        )
        live = GaugeMetricFamily("portico_feed_live", "1: the follower is live", labels=["consumer", "kind"])
        now_ms = monotonic_ms()
        for name, one in list(feed.consumers.items()):
            applied.add_metric([name, one.kind.value], one.applied_revision)
            live.add_metric([name, one.kind.value], float(one.is_live(now_ms)))
        yield applied
        yield live

    def _kept(self) -> Iterator[Metric]:
        """What is not served and not purged either."""
        absent = self._console.absent()
        ids = {found.instance_id for found, _state in absent}
        held = self._console.found.found(monotonic_ms()).values()
        yield GaugeMetricFamily(
            "portico_absent_instances", "Instances that brokers hold and no database knows", value=len(absent)
        )
        yield GaugeMetricFamily(
            "portico_absent_stored_bytes",
            "Bytes of absent instances",
            value=sum(found.stored_bytes for found, _state in absent),
        )
        yield GaugeMetricFamily(
            "portico_deleted_stored_bytes",
            "Bytes of deleted instances that are not purged",
            value=sum(one.stored_bytes for one in held if one.instance_id not in ids),
        )


def _info(named: Mapping[str, instances.Named]) -> Metric:
    """What the other metrics, which know ids alone, are joined with."""
    family = GaugeMetricFamily(
        "portico_instance_info",
        "1: an instance, how it is called and whose it is",
        labels=["instance", "tenant", "name"],
    )
    for instance_id, found in named.items():
        if found.is_visible:
            family.add_metric([instance_id, found.tenant, found.name], 1)
    return family
