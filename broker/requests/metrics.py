"""What the broker counts. Plain integers on the hot path; Prometheus reads them when it scrapes."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from broker.requests.causes import CloseCause
from runtime.durations import Durations, durations
from wire.api_table import ApiKey

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_BOUNDS_US: Final = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000)


class Histogram:
    """Durations in microseconds."""

    __slots__ = ("buckets", "total_us")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_US) + 1)
        self.total_us = 0

    def observe(self, duration_ns: int) -> None:
        """Count one duration."""
        duration_us = duration_ns // 1000
        self.buckets[bisect_left(_BOUNDS_US, duration_us)] += 1
        self.total_us += duration_us

    def cumulative(self) -> list[tuple[str, float]]:
        """Prometheus' buckets."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, number in zip((*_BOUNDS_US, None), self.buckets, strict=True):
            total += number
            found.append(("+Inf" if bound is None else str(bound / 1e6), total))
        return found


class BrokerMetrics:
    """All counters of the process. `gauges` are asked when scraped: name -> (help, function), those with a
    label: name -> (help, label, function)."""

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_accepted = 0
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.times_at_once: defaultdict[int, Durations] = defaultdict(durations)
        """Times of requests that their handler has answered: from the request to its answer and the handler's
        return."""
        self.request_times: defaultdict[int, Durations] = defaultdict(durations)
        """Times of all other requests, to their answer."""
        self.local_times: defaultdict[int, Durations] = defaultdict(durations)
        """Times of all other requests, until the handler returned."""
        self.queue_times: defaultdict[int, Durations] = defaultdict(durations)
        """Before that, of requests whose instance had to wait for its turn or for what it owed."""
        self.remote_times: defaultdict[int, Durations] = defaultdict(durations)
        """From then to the answer, of requests that waited for followers (acks=all), data or a group."""
        self.connections_closed: dict[CloseCause, int] = dict.fromkeys(CloseCause, 0)
        self.append = Histogram()
        self.fetch = Histogram()
        self.replica_fetch = Histogram()
        self.appended_bytes = 0
        self.append_refused: defaultdict[str, int] = defaultdict(int)
        self.throttled_ms: dict[str, int] = {"produce": 0, "consume": 0}
        self.told_throttle_ms: defaultdict[int, int] = defaultdict(int)
        """throttle_time_ms of answers, by API."""
        self.storage_errors = 0
        self.recovered_bytes = 0
        self.scans = 0
        """Looks into records by the scanning process."""
        self.scan_steps = 0
        self.scan_cpu_us = 0
        self.isr_changes: dict[str, int] = {"shrink": 0, "expand": 0}
        self.totals: Callable[[], Iterable[tuple[str, float, str]]] = tuple
        """Totals that others count: (name, value, help)."""
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.labelled_gauges: dict[str, tuple[str, str, Callable[[], Iterable[tuple[str, float]]]]] = {}

    def closed(self, cause: CloseCause) -> None:
        """A connection was closed."""
        self.connections_closed[cause] += 1

    def collect(self) -> "Iterable[Metric]":
        """For the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        def counter(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> "Metric":
            family = CounterMetricFamily(f"portico_broker_{name}", text, labels=[label])
            for key, value in values:
                family.add_metric([key], value)
            return family

        yield counter("requests", "Requests by API.", "api", _by_api(self.requests, 1))
        yield from self._request_times()
        yield counter(
            "connections_closed", "Closed connections by cause.", "cause",
            [(str(cause), number) for cause, number in list(self.connections_closed.items())],
        )  # fmt: skip
        yield counter(
            "bytes", "Bytes on client sockets.", "direction", [("in", self.bytes_in), ("out", self.bytes_out)]
        )
        yield counter(
            "append_refused", "Refused appends by error.", "error", list(self.append_refused.items())
        )
        yield counter(
            "throttle_seconds", "throttle_time handed out.", "direction",
            [(key, value / 1000) for key, value in list(self.throttled_ms.items())],
        )  # fmt: skip
        yield counter(
            "request_throttle_seconds", "throttle_time of answers, by API.", "api",
            _by_api(self.told_throttle_ms, 1000),
        )  # fmt: skip
        yield counter(
            "isr_changes", "ISR changes proposed as leader.", "direction", list(self.isr_changes.items())
        )
        yield from self._totals()
        for name, histogram, text in (
            ("append_seconds", self.append, "Append to one partition."),
            ("fetch_seconds", self.fetch, "Building one Fetch answer."),
            ("replica_fetch_seconds", self.replica_fetch, "Building one answer to a follower."),
        ):
            yield HistogramMetricFamily(
                f"portico_broker_{name}", text, histogram.cumulative(), histogram.total_us / 1e6
            )
        for name, (text, ask) in self.gauges.items():
            yield GaugeMetricFamily(f"portico_broker_{name}", text, value=ask())
        for name, (text, label, ask_all) in self.labelled_gauges.items():
            family = GaugeMetricFamily(f"portico_broker_{name}", text, labels=[label])
            for key, value in ask_all():
                family.add_metric([key], value)
            yield family

    def _request_times(self) -> "Iterable[Metric]":
        """Kafka's TotalTimeMs, LocalTimeMs and RemoteTimeMs."""
        from runtime.durations import added, family

        at_once = self.times_at_once
        for name, kinds, text in (
            (
                "request_seconds",
                (at_once, self.request_times),
                "Time from a request to its answer, waits included.",
            ),
            ("request_local_seconds", (at_once, self.local_times), "Time in which a request was handled."),
            ("request_remote_seconds", (self.remote_times,), "Time for which the answer waited for others."),
            ("request_queue_seconds", (self.queue_times,), "Time for which requests had to wait for a turn."),
        ):
            seen = [
                ([ApiKey(key).name.lower()], added([times[key] for times in kinds if key in times]))
                for key in dict.fromkeys(key for times in kinds for key in list(times))
            ]
            yield family(f"portico_broker_{name}", text, ["api"], seen)

    def _totals(self) -> "Iterable[Metric]":
        from prometheus_client.core import CounterMetricFamily

        for name, value, text in (
            *self.totals(),
            ("connections_accepted", self.connections_accepted, "Accepted connections."),
            ("appended_bytes", self.appended_bytes, "Record bytes written to logs."),
            ("recovered_bytes", self.recovered_bytes, "Bytes that recovery read at start."),
            ("storage_errors", self.storage_errors, "Operations the disk refused."),
            ("scans", self.scans, "Looks into records by the scanning process."),
            ("scan_steps", self.scan_steps, "How often these let others have their turn."),
            ("scan_cpu_seconds", self.scan_cpu_us / 1e6, "CPU time of the scanning process."),
        ):
            yield CounterMetricFamily(f"portico_broker_{name}", text, value=value)


def _by_api(values: dict[int, int], divisor: int) -> list[tuple[str, float]]:
    return [(ApiKey(key).name.lower(), value / divisor) for key, value in list(values.items())]
