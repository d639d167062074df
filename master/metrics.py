"""The master's Prometheus metrics, made at scrape time from the last tick's decisions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contracts.quota import BYTE_DIRECTIONS
from contracts.request_time import CORE_US_PER_S
from master.quota.cpu_decision import CpuDecision
from master.quota.decision import InstanceDecision, side_of

_BROKER = ("instance", "node", "direction")
_POINT = ("instance", "point")


class Observed(Protocol):
    """What of the service is shown; read from the metrics thread."""

    @property
    def decisions(self) -> Sequence[InstanceDecision]:
        """What the last tick decided; replaced, never changed."""

    @property
    def cpu_decisions(self) -> Sequence[CpuDecision]:
        """What the last tick decided of request time; replaced, never changed."""

    @property
    def reports(self) -> Mapping[str, int]:
        """Reports by outcome."""

    @property
    def refusals(self) -> Mapping[str, int]:
        """Refusals by reason."""

    @property
    def usage_records(self) -> Mapping[str, int]:
        """Usage records by outcome."""


class MasterCollector(Collector):
    """Rates per broker, stored and blocked per instance, reports by outcome."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics as of the last tick."""
        decisions = self._observed.decisions
        yield from _broker_metrics(decisions)
        yield from _instance_metrics(decisions)
        yield from _cpu_metrics(self._observed.cpu_decisions)
        yield _counter(
            "portico_quota_reports", "Traffic reports by outcome", "outcome", self._observed.reports
        )
        yield _counter(
            "portico_quota_reports_refused", "Traffic reports refused", "reason", self._observed.refusals
        )
        yield _counter(
            "portico_usage_records", "Usage records by outcome", "outcome", self._observed.usage_records
        )


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in dict(values).items():
        family.add_metric([str(key)], value)
    return family


def _broker_metrics(decisions: Sequence[InstanceDecision]) -> Iterator[Metric]:
    rate = GaugeMetricFamily("portico_quota_rate_bytes_per_second", "r: traffic", labels=_BROKER)
    share = GaugeMetricFamily("portico_quota_share_bytes_per_second", "F: static share", labels=_BROKER)
    proportion = GaugeMetricFamily(
        "portico_quota_proportion_bytes_per_second", "P: share in proportion to traffic", labels=_BROKER
    )
    allocated = GaugeMetricFamily("portico_quota_allocated_bytes_per_second", "q: allocation", labels=_BROKER)
    throttled = GaugeMetricFamily(
        "portico_quota_throttled_ratio", "Part of the time in which clients were held back", labels=_BROKER
    )
    refused = CounterMetricFamily(
        "portico_quota_refused", "Produce requests refused because the instance was full", labels=_BROKER[:2]
    )
    refusals = CounterMetricFamily(
        "portico_quota_refusals", "Requests that were charged and refused", labels=[*_BROKER[:2], "reason"]
    )
    for decision in decisions:
        for index, entry in enumerate(decision.entries):
            for direction in BYTE_DIRECTIONS:
                labels = (entry.instance_id, str(entry.node_id), direction.value)
                result = decision.shared_out(direction).decision
                side = side_of(entry, direction)
                rate.add_metric(labels, side.rate_per_s or 0)
                share.add_metric(labels, result.shares[index])
                proportion.add_metric(labels, result.proportions[index])
                allocated.add_metric(labels, result.rates[index])
                throttled.add_metric(labels, side.throttled_ms_per_s / 1000)
            refused.add_metric((entry.instance_id, str(entry.node_id)), entry.produce.counters.refused)
            for reason, number in entry.refusals.items():
                refusals.add_metric((entry.instance_id, str(entry.node_id), reason), number)
    yield from (rate, share, proportion, allocated, throttled, refused, refusals)


def _cpu_metrics(decisions: Sequence[CpuDecision]) -> Iterator[Metric]:
    purchased = _cores("purchased", "T: request time bought", ("instance",))
    rate = _cores("rate", "r: CPU time spent per second", _POINT)
    share = _cores("share", "F: static share", _POINT)
    proportion = _cores("proportion", "P: share in proportion to what is spent", _POINT)
    allocated = _cores("allocated", "q: allocation", _POINT)
    throttled = GaugeMetricFamily(
        "portico_quota_cpu_throttled_ratio",
        "Part of the time in which clients were held back for request time",
        labels=_POINT,
    )
    for decision in decisions:
        result = decision.shared.decision
        purchased.add_metric([decision.spec.instance_id], decision.purchased / CORE_US_PER_S)
        for index, entry in enumerate(decision.entries):
            labels = (entry.instance_id, entry.point)
            rate.add_metric(labels, (entry.flow.rate_per_s or 0) / CORE_US_PER_S)
            share.add_metric(labels, result.shares[index] / CORE_US_PER_S)
            proportion.add_metric(labels, result.proportions[index] / CORE_US_PER_S)
            allocated.add_metric(labels, result.rates[index] / CORE_US_PER_S)
            throttled.add_metric(labels, entry.flow.throttled_ms_per_s / 1000)
    yield from (purchased, rate, share, proportion, allocated, throttled)


def _cores(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"portico_quota_cpu_{name}_cores", text, labels=labels)


def _instance_metrics(decisions: Sequence[InstanceDecision]) -> Iterator[Metric]:
    purchased = GaugeMetricFamily(
        "portico_quota_purchased_bytes_per_second", "T: rate bought", labels=["instance", "direction"]
    )
    stored = GaugeMetricFamily("portico_quota_stored_bytes", "Stored bytes", labels=["instance"])
    capacity = GaugeMetricFamily("portico_quota_capacity_bytes", "Capacity bought", labels=["instance"])
    blocked = GaugeMetricFamily("portico_quota_blocked", "1 while produce is blocked", labels=["instance"])
    silent = GaugeMetricFamily(
        "portico_quota_silent_brokers", "Brokers not heard of for three periods", labels=["instance"]
    )
    for decision in decisions:
        label = [decision.spec.instance_id]
        for direction in BYTE_DIRECTIONS:
            purchased.add_metric([*label, direction.value], decision.purchased(direction))
        stored.add_metric(label, decision.stored_bytes)
        capacity.add_metric(label, decision.spec.capacity_bytes)
        blocked.add_metric(label, int(decision.blocked))
        silent.add_metric(label, sum(decision.silent))
    yield from (purchased, stored, capacity, blocked, silent)
