"""The worker's counters as Prometheus metrics, read when scraped; the data path only adds integers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from contracts.quota import Direction
from gateway.apis import APIS
from gateway.causes import REFUSED_AT_ACCEPT
from gateway.named_port import NamesAtOnePort
from gateway.served import ServedInstance
from gateway.worker import Worker
from runtime.durations import family


class WorkerCollector(Collector):
    """Metrics of one worker, by instance."""

    def __init__(self, worker: Worker, names: NamesAtOnePort | None = None) -> None:
        self._worker = worker
        self._names = names

    def collect(self) -> Iterator[Any]:
        """Called from the metrics thread: it copies before it iterates."""
        connections = GaugeMetricFamily(
            "portico_gateway_connections", "Client connections now", labels=["instance"]
        )
        closed = CounterMetricFamily(
            "portico_gateway_connections_closed", "Ended connections", labels=["instance", "cause"]
        )
        refused = CounterMetricFamily(
            "portico_gateway_connections_refused", "Turned away at accept", labels=["instance", "cause"]
        )
        carried = CounterMetricFamily(
            "portico_gateway_bytes", "Bytes from and to clients", labels=["instance", "direction"]
        )
        requests = CounterMetricFamily(
            "portico_gateway_requests", "Requests begun", labels=["instance", "api"]
        )
        serving = GaugeMetricFamily(
            "portico_gateway_instance_phase",
            "1 for the phase an instance is in",
            labels=["instance", "phase"],
        )
        for instance_id, served in tuple(self._worker.served.items()):
            connections.add_metric([instance_id], len(served.connections))
            for cause, count in tuple(served.closed.items()):
                family = refused if cause in REFUSED_AT_ACCEPT else closed
                family.add_metric([instance_id, str(cause)], count)
            carried.add_metric([instance_id, "in"], served.bytes_in)
            carried.add_metric([instance_id, "out"], served.bytes_out)
            for api_key, count in tuple(served.requests.items()):
                requests.add_metric([instance_id, APIS[api_key].key.name.lower()], count)
            serving.add_metric([instance_id, str(served.phase)], 1)
        to_nobody = CounterMetricFamily(
            "portico_gateway_connections_to_nobody",
            "Reset at accept: to an address of a pool of vips, at a port of it, that is no instance's",
        )
        to_nobody.add_metric([], self._worker.connections_to_nobody)
        yield to_nobody
        yield from self._request_time()
        yield from self._certificate()
        yield from self._named_port()
        yield from self._injected_faults()
        yield self._client_metrics()
        yield self._mutations()
        yield self._answer_time()
        yield from self._waits()
        backlog = GaugeMetricFamily(
            "portico_gateway_backlog_bytes", "Copied and waiting for full sockets, whole worker"
        )
        backlog.add_metric([], self._worker.buffer.backlog_bytes)
        yield from (connections, closed, refused, carried, requests, serving, backlog)

    def _named_port(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        ended = CounterMetricFamily(
            "portico_gateway_nameless_ended",
            "Connections at the port that serves by names which ended before they were an instance's",
            labels=["cause"],
        )
        waiting = GaugeMetricFamily(
            "portico_gateway_nameless_connections", "Connections there that have not named an instance yet"
        )
        spent = CounterMetricFamily(
            "portico_gateway_nameless_cpu_seconds", "CPU time of the loop spent on connections like these"
        )
        throttled = CounterMetricFamily(
            "portico_gateway_nameless_throttled_seconds",
            "Time in which that port was not accepted from or read: such connections had cost too much",
        )
        if self._names is not None:
            for cause, count in tuple(self._names.ended.items()):
                ended.add_metric([str(cause)], count)
            waiting.add_metric([], len(self._names))
            spent.add_metric([], self._names.strangers.flow.used / 1e6)
            throttled.add_metric([], self._names.strangers.flow.throttled_ms / 1e3)
        yield from (ended, waiting, spent, throttled)

    def _certificate(self) -> Iterator[GaugeMetricFamily]:
        not_after = GaugeMetricFamily(
            "portico_gateway_certificate_not_after_seconds",
            "Until when clients take the certificate in use, epoch; 0: there is none",
        )
        failing = GaugeMetricFamily(
            "portico_gateway_certificate_failing",
            "1 while the files of the certificate, as they are now, are of no use; the one before is in use",
        )
        found = [
            one for one in (self._worker.certificates, self._worker.named_certificates) if one is not None
        ]
        if found:  # two where the port that serves by names has its own
            not_after.add_metric([], min(one.not_after_s for one in found))
            failing.add_metric([], 1 if any(one.failure for one in found) else 0)
        yield from (not_after, failing)

    def _client_metrics(self) -> CounterMetricFamily:
        pushes = CounterMetricFamily(
            "portico_gateway_client_metrics_pushes",
            "Pushes of clients' own metrics (KIP-714), by what became of them",
            labels=["instance", "outcome"],
        )
        return self._by_outcome(pushes, lambda served: served.client_metrics.pushes.items())

    def _mutations(self) -> CounterMetricFamily:
        mutations = CounterMetricFamily(
            "portico_gateway_mutations",
            "Partitions that clients wanted to create or delete, by what came of it",
            labels=["instance", "outcome"],
        )
        return self._by_outcome(mutations, lambda served: served.mutations.items())

    def _by_outcome(
        self, outcomes: CounterMetricFamily, counted: Callable[[ServedInstance], Iterable[tuple[str, int]]]
    ) -> CounterMetricFamily:
        for instance_id, served in tuple(self._worker.served.items()):
            for outcome, count in tuple(counted(served)):
                outcomes.add_metric([instance_id, str(outcome)], count)
        return outcomes

    def _answer_time(self) -> Any:
        answer_times = self._worker.times
        return family(
            "portico_gateway_answer_seconds",
            "Time from a whole request to its whole reply, by who answered it",
            ["api", "by"],
            [
                ([APIS[key].key.name.lower(), by], seen)
                for by, times in (
                    ("broker", answer_times.by_brokers),
                    ("gateway", answer_times.by_gateway),
                )
                for key, seen in times.items()
            ],
        )

    def _injected_faults(self) -> Iterator[Any]:
        active = GaugeMetricFamily(
            "portico_faults_active",
            "1 for each kind of fault that the tenant has injected into its instance and that acts now",
            labels=["instance", "kind"],
        )
        hits = CounterMetricFamily(
            "portico_fault_requests",
            "Requests that an injected fault has hit; of `once`, connections",
            labels=["instance", "kind"],
        )
        for instance_id, served in tuple(self._worker.served.items()):
            faults = served.faults
            for kind in () if faults is None else faults.kinds:
                active.add_metric([instance_id, kind], 1)
            for kind, count in tuple(served.fault_hits.items()):
                hits.add_metric([instance_id, kind], count)
        yield from (active, hits)

    def _waits(self) -> Iterator[Any]:
        times = self._worker.times
        names = {key: row.key.name.lower() for key, row in APIS.items()}
        yield family(
            "portico_gateway_request_queue_seconds",
            "Time for which requests had to wait for a turn",
            ["api"],
            [([names[key]], seen) for key, seen in times.in_queue.items()],
        )
        told = CounterMetricFamily(
            "portico_gateway_request_throttle_seconds",
            "throttle_time that the gateway put into answers, by API",
            labels=["api"],
        )
        for key, told_ms in times.told_throttle_ms.items():
            if told_ms:
                told.add_metric([names[key]], told_ms / 1000)
        yield told

    def _request_time(self) -> Iterator[Any]:
        """CPU time, in seconds as Prometheus wants it."""
        spent = CounterMetricFamily(
            "portico_gateway_cpu_seconds",
            "CPU time of the loop spent on an instance, or on turning strangers away from its ports",
            labels=["instance", "for"],
        )
        throttled = CounterMetricFamily(
            "portico_gateway_cpu_throttled_seconds",
            "Time in which an instance, its TLS handshakes or strangers had to wait for their request time",
            labels=["instance", "for"],
        )
        waiting = GaugeMetricFamily(
            "portico_gateway_steps_waiting", "Steps that wait for their instance's turn", labels=["instance"]
        )
        for instance_id, served in tuple(self._worker.served.items()):
            strangers = served.strangers.flow
            flow = self._worker.point.flow(instance_id, Direction.CPU)
            spent.add_metric([instance_id, "tenant"], 0 if flow is None else flow.used / 1e6)
            spent.add_metric([instance_id, "strangers"], strangers.used / 1e6)
            throttled.add_metric([instance_id, "tenant"], 0 if flow is None else flow.throttled_ms / 1e3)
            throttled.add_metric([instance_id, "strangers"], strangers.throttled_ms / 1e3)
            handshakes_ms = served.handshakes.flow.throttled_ms
            throttled.add_metric([instance_id, "handshakes"], handshakes_ms / 1e3)
            waiting.add_metric([instance_id], served.turn.waiting)
        pumped = CounterMetricFamily(
            "portico_gateway_steps_waited", "Steps that had to wait for a turn, whole worker"
        )
        pumped.add_metric([], self._worker.pacing.pumped_steps)
        yield from (spent, throttled, waiting, pumped)
