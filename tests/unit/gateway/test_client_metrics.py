"""Client metrics (KIP-714) in a gateway's session: who is asked for what, when pushes are taken, kept."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.schema.errors import ErrorCode
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from contracts.access_orders import AccessAnswer
from contracts.client_metrics import (
    SUBSCRIPTION_CHARS_MAX,
    TEXT_CHARS_MAX,
    VALUES_MAX,
    ClientReport,
    LostClient,
    MetricsSubscription,
)
from gateway.otlp import ENTRIES_MAX, read_metrics
from gateway.rules.client_metrics import (
    CLIENTS_MAX,
    PUSHED_BYTES_MAX,
    READ_BURST_MS,
    READ_BYTES_PER_S,
    REPORTS_MAX,
    SHOWN,
    SHOWN_EVERY_MS,
    Outcome,
    PushUnreadable,
    kafkas_text,
)
from tests.unit.gateway.test_acl_requests import Client
from wire.api_table import ApiKey
from wire.compression import compress

GET, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY
DESCRIBE, ALTER = ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
LATENCY = "org.apache.kafka.producer.request.latency.avg"
RETRIES = "org.apache.kafka.producer.record.retry.total"
SOMEBODY = UUID("58f98d59-8fa2-4d1f-9f1a-9c3f4a5f7b11")


def point(value: float, *labels: str) -> NumberDataPoint:
    attributes = [KeyValue(key=one, value=AnyValue(string_value="x")) for one in labels]
    return NumberDataPoint(as_double=value, attributes=attributes)


def pushed(
    gauges: Mapping[str, list[NumberDataPoint]], sums: Mapping[str, list[NumberDataPoint]] | None = None
) -> bytes:
    metrics = [Metric(name=name, gauge=Gauge(data_points=points)) for name, points in gauges.items()]
    metrics += [Metric(name=name, sum=Sum(data_points=points)) for name, points in (sums or {}).items()]
    group = KeyValue(key="group_id", value=AnyValue(string_value="readers" * 100))
    one = ResourceMetrics(
        resource=Resource(attributes=[group]), scope_metrics=[ScopeMetrics(metrics=metrics)]
    )
    return bytes(MetricsData(resource_metrics=[one]).SerializeToString())


class Telling(Client):
    """A client that is asked, and tells."""

    def __init__(self, *subscriptions: MetricsSubscription, **changes: Any) -> None:
        super().__init__(enforced=False, users=(), **changes)
        self.change(metric_subscriptions=subscriptions)

    @property
    def metrics(self) -> Any:
        return self.host.served.client_metrics

    def change(self, **changes: Any) -> None:
        spec = self.host.served.spec
        self.host.served.apply(msgspec.structs.replace(spec, revision=spec.revision + 1, **changes))

    def passes(self, time_ms: int) -> None:
        self.host.around.time_ms += time_ms

    def get(self, client_instance_id: UUID | None = None) -> Any:
        return self.call(GET, 0, client_instance_id=client_instance_id)

    def push(self, got: Any, metrics: bytes = b"", **changes: Any) -> ErrorCode:
        known = {
            "client_instance_id": got.client_instance_id,
            "subscription_id": got.subscription_id,
            "terminating": False,
            "compression_type": 0,
            "metrics": metrics,
        }
        code: ErrorCode = self.call(PUSH, 0, **known | changes).error_code
        return code

    def lost(self) -> tuple[LostClient, ...]:
        taken: tuple[LostClient, ...] = self.metrics.take_lost(1000, self.host.around.time_ms)
        return taken

    def reports(self) -> tuple[ClientReport, ...]:
        taken: tuple[ClientReport, ...] = self.metrics.take_reports(1000, self.host.around.time_ms)
        return taken


def test_a_client_is_asked_for_what_the_console_shows_and_its_numbers_are_kept() -> None:
    client = Telling()
    got = client.get()
    assert got.error_code is ErrorCode.none and got.client_instance_id.version == 4
    assert set(got.requested_metrics) == set(SHOWN)
    assert got.push_interval.total_seconds() * 1000 == SHOWN_EVERY_MS
    values = {LATENCY: [point(3.5)], "org.apache.kafka.producer.batch.size.avg": [point(1.0)]}
    assert client.push(got, compress(pushed(values, {RETRIES: [point(2.0)]}), 1), compression_type=1) is (
        ErrorCode.none
    )
    client.passes(700)
    (report,) = client.reports()
    assert report.values == {LATENCY: 3.5, RETRIES: 2.0}, "what was not asked for is left out"
    assert report.client_instance_id == kafkas_text(got.client_instance_id)
    assert (report.client_id, report.address, report.age_ms) == ("c", "192.0.2.7", 700)
    assert report.group_id == ("readers" * 100)[:TEXT_CHARS_MAX]
    assert not client.reports(), "each is told once"


def test_a_client_keeps_its_id_and_any_worker_knows_its_subscription() -> None:
    here, there = Telling(), Telling()
    got = here.get(SOMEBODY)
    assert got.client_instance_id == SOMEBODY
    assert there.push(got, pushed({LATENCY: [point(1.0)]})) is ErrorCode.none
    another = there.get(UUID(int=SOMEBODY.int + 1))
    assert another.subscription_id != got.subscription_id


def test_pushes_come_once_per_interval_but_for_the_first_and_the_last() -> None:
    client = Telling()
    got = client.get()
    client.passes(1)  # clients spread their first push
    assert client.push(got) is ErrorCode.none
    client.passes(SHOWN_EVERY_MS - 1)
    assert client.push(got) is ErrorCode.throttling_quota_exceeded
    assert client.get(got.client_instance_id).error_code is ErrorCode.throttling_quota_exceeded
    client.passes(1)
    assert client.push(got) is ErrorCode.none
    assert client.push(got, terminating=True) is ErrorCode.none, "the last may come early"
    assert client.push(got) is ErrorCode.invalid_request, "behind the last"
    assert client.metrics.pushes == {"taken": 3, "too_early": 2, "invalid": 1}
    assert client.reports()[0].is_last


def test_a_changed_subscription_has_another_id_and_is_told_at_once() -> None:
    client = Telling()
    got = client.get()
    client.change(metric_subscriptions=(MetricsSubscription(name="all", metrics=("*",), interval_ms=1000),))
    assert client.push(got) is ErrorCode.unknown_subscription_id
    again = client.get(got.client_instance_id)
    assert again.error_code is ErrorCode.none and again.subscription_id != got.subscription_id
    assert again.requested_metrics == ("*",) and again.push_interval.total_seconds() == 1
    assert client.push(again, pushed({"org.apache.kafka.consumer.x": [point(1.0)]})) is ErrorCode.none
    assert client.reports()[0].values == {"org.apache.kafka.consumer.x": 1.0}


def test_subscriptions_are_for_whom_they_match() -> None:
    only = MetricsSubscription(
        name="c",
        metrics=("m.c",),
        interval_ms=5000,
        match=("client_id=c", "client_source_address=192[.]0[.]2[.].*"),
    )
    others = MetricsSubscription(name="d", metrics=("m.d",), interval_ms=100, match=("client_id=c.+",))
    got = Telling(only, others).get()
    assert set(got.requested_metrics) == {*SHOWN, "m.c"} and got.push_interval.total_seconds() == 5


def test_an_instance_that_takes_no_metrics_does_not_offer_them() -> None:
    client = Telling(MetricsSubscription(name="all", metrics=("*",)))
    before = client.get()
    assert {GET, PUSH} <= _offered(client)
    client.change(client_metrics=False)
    assert not {GET, PUSH} & _offered(client)
    assert client.push(before, pushed({LATENCY: [point(1.0)]})) is ErrorCode.unknown_subscription_id
    after = client.get(before.client_instance_id)
    assert after.requested_metrics == () and not client.reports()


def _offered(client: Telling) -> set[int]:
    named = {"client_software_name": "kafka", "client_software_version": "4.3.1"}
    return {one.api_key for one in client.call(ApiKey.API_VERSIONS, 3, **named).api_keys}


def test_software_is_what_api_versions_said_of_it() -> None:
    client = Telling()
    _offered(client)  # the second answer is one that was kept
    _offered(client)
    client.push(client.get())
    (report,) = client.reports()
    assert (report.software_name, report.software_version) == ("kafka", "4.3.1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"compression_type": 5}, ErrorCode.unsupported_compression_type),
        ({"compression_type": -1}, ErrorCode.unsupported_compression_type),
        ({"metrics": b"\xff" * 100}, ErrorCode.invalid_record),
        ({"metrics": b"no gzip", "compression_type": 1}, ErrorCode.invalid_record),
        ({"metrics": bytes(PUSHED_BYTES_MAX + 1)}, ErrorCode.telemetry_too_large),
        ({"client_instance_id": None}, ErrorCode.invalid_request),
        ({"client_instance_id": UUID(int=1)}, ErrorCode.invalid_request),
        *(
            (
                {"metrics": compress(bytes(64 << 20), codec), "compression_type": codec},
                ErrorCode.telemetry_too_large,
            )
            for codec in (1, 3, 4)
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_what_is_not_taken_says_why_and_holds_nothing(changes: dict[str, Any], code: ErrorCode) -> None:
    client = Telling()
    got = client.get()
    assert client.push(got, **changes) is code
    assert not client.reports()


def test_of_very_many_entries_the_first_are_looked_at_and_no_sum_in_part() -> None:
    assert read_metrics(b"\x0a\x00" * (ENTRIES_MAX + 1), 0, ("",)).values == {}
    points = {"first": [point(1.0)], "second": [point(1.0, "topic")] * ENTRIES_MAX, "third": [point(1.0)]}
    assert read_metrics(pushed({}, points), 0, ("",)).values == {"first": 1.0}


def test_what_is_read_of_an_instance_is_bounded_and_a_neighbour_is_read() -> None:
    """Whatever ids its clients give themselves, and whether or not it can be read."""
    flooding, neighbour = Telling(), Telling()
    bombs = (compress(bytes(64 << 20), 1), 1), (b"\xff" * 100, 0), (b"\x0a\x00" * (PUSHED_BYTES_MAX // 2), 0)
    for number in range(90):
        metrics, codec = bombs[number % len(bombs)]
        got = flooding.get(UUID(int=1_000 + number))
        flooding.push(got, metrics=metrics, compression_type=codec)
        assert neighbour.push(neighbour.get(UUID(int=2_000 + number)), pushed({LATENCY: [point(1.0)]})) is (
            ErrorCode.none
        )
        neighbour.reports()
        flooding.passes(100)
    pushes = flooding.metrics.pushes
    read = pushes[Outcome.TOO_LARGE] + pushes[Outcome.UNREADABLE] + pushes[Outcome.TAKEN]
    may_be_read_bytes = (READ_BURST_MS + 90 * 100) * READ_BYTES_PER_S // 1000
    assert read == may_be_read_bytes // PUSHED_BYTES_MAX + 1, "the last is paid afterwards"
    assert pushes[Outcome.DROPPED] == 90 - read
    assert neighbour.metrics.pushes == {Outcome.TAKEN: 90}


def test_a_push_is_bounded_in_values_and_takes_plain_names_and_finite_numbers_only() -> None:
    many = {f"m.{number:04}": [point(1.0)] for number in range(VALUES_MAX + 10)}
    assert len(read_metrics(pushed(many), 0, ("",)).values) == VALUES_MAX
    odd = {
        "a" * 200: [point(1.0)],
        "<b>": [point(1.0)],
        "nan": [point(float("nan"))],
        "inf": [point(float("inf"))],
    }
    assert read_metrics(pushed(odd), 0, ("",)).values == {}
    with pytest.raises(PushUnreadable):
        read_metrics(b"\x0a\xff\xff\xff\xff\x0f", 0, ("",))


def test_of_labels_the_highest_counts_and_sums_are_added_where_none_holds_the_others() -> None:
    lag = {"lag": [point(7.0, "topic", "partition"), point(9.0), point(4.0, "topic")]}
    assert read_metrics(pushed(lag), 0, ("",)).values == {"lag": 9.0}
    nodes = {"latency": [point(7.0, "node_id"), point(9.0, "node_id")]}
    sums = {"sent": [point(1.0, "node_id"), point(2.0, "node_id")], "all": [point(5.0), point(5.0, "topic")]}
    assert read_metrics(pushed(nodes, sums), 0, ("",)).values == {"latency": 9.0, "sent": 3.0, "all": 5.0}


def test_clients_without_number_do_not_take_memory_without_number() -> None:
    client = Telling()
    for number in range(CLIENTS_MAX + 50):
        got = client.get(UUID(int=1000 + number))
        assert client.push(got, pushed({LATENCY: [point(1.0)]})) is ErrorCode.none
    assert client.metrics.clients == CLIENTS_MAX
    assert len(client.reports()) == REPORTS_MAX
    assert client.metrics.pushes[Outcome.DROPPED] == CLIENTS_MAX + 50 - REPORTS_MAX


def test_a_client_is_forgotten_with_its_connection_and_after_three_intervals() -> None:
    client = Telling()
    got = client.get()
    client.passes(3 * SHOWN_EVERY_MS)
    client.get()
    assert client.metrics.clients == 1, "the silent one is forgotten"
    client.host.session.requests.discard()
    assert client.metrics.clients == 0
    assert client.get(got.client_instance_id).error_code is ErrorCode.none


def test_a_client_that_goes_without_a_word_is_told_of_as_lost_after_its_last_push() -> None:
    client = Telling()
    got = client.get()
    client.push(got, pushed({LATENCY: [point(1.0)]}))
    client.passes(200)
    client.host.session.requests.discard()
    assert client.lost() == (), "its push is told first"
    assert client.reports() and client.metrics.waiting == 1
    client.passes(300)
    (lost,) = client.lost()
    assert lost.client_instance_id == kafkas_text(got.client_instance_id) and lost.age_ms == 500
    assert client.lost() == () and client.metrics.waiting == 0


def test_who_said_that_it_ends_or_came_back_or_is_heard_by_another_connection_is_not_lost() -> None:
    client = Telling()
    got = client.get()
    client.push(got, terminating=True)
    client.host.session.requests.discard()
    assert client.reports() and client.lost() == ()
    client.get(got.client_instance_id)
    client.host.session.requests.discard()
    client.get(got.client_instance_id)
    assert client.lost() == ()
    client.metrics.disconnected(got.client_instance_id, "one that it had before")
    assert client.lost() == () and client.metrics.clients == 1


def test_of_very_many_that_are_lost_at_once_some_are_told_of() -> None:
    client = Telling()
    for number in range(REPORTS_MAX + 50):
        client.get(UUID(int=1000 + number))
        client.host.session.requests.discard()
    assert client.metrics.clients == 0 and len(client.lost()) == REPORTS_MAX


# Subscriptions as config resources


def _config(name: str, value: str | None, operation: int = 0) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def _alter(client: Telling, *configs: dict[str, Any], name: str = "latency", **changes: Any) -> Any:
    resource = {"resource_type": 16, "resource_name": name, "configs": configs}
    (answer,) = client.call(ALTER, 1, resources=[resource], **changes).responses
    return answer


def test_a_subscription_is_made_by_kafkas_own_request_and_never_goes_up() -> None:
    client = Telling()
    answer = _alter(client, _config("metrics", "a., b."), _config("interval.ms", "1000"))
    assert answer.error_code is ErrorCode.none and answer.resource_name == "latency"
    (order,) = client.host.around.access_orders
    made = MetricsSubscription(name="latency", metrics=("a.", "b."), interval_ms=1000)
    assert order.subscriptions == (made,)
    client.change(metric_subscriptions=(made,))
    _alter(client, _config("metrics", "c.", 2), _config("interval.ms", None, 1))
    changed = client.host.around.access_orders[-1].subscriptions
    assert changed == (MetricsSubscription(name="latency", metrics=("a.", "b.", "c.")),)
    _alter(client, _config("metrics", None, 1), _config("interval.ms", None, 1))
    assert client.host.around.access_orders[-1].subscriptions == (MetricsSubscription(name="latency"),)


def test_a_subscription_is_described_with_its_defaults() -> None:
    client = Telling(MetricsSubscription(name="latency", metrics=("a.",)))
    asked = [
        {"resource_type": 16, "resource_name": name, "configuration_keys": None} for name in ("latency", "no")
    ]
    known, unknown = client.call(DESCRIBE, 4, resources=asked).results
    assert {one.name: (one.value, one.config_source) for one in known.configs} == {
        "metrics": ("a.", 7),
        "interval.ms": ("300000", 5),
        "match": ("", 5),
    }
    assert [one.config_source for one in unknown.configs] == [5, 5, 5]


@pytest.mark.parametrize(
    "config",
    [
        ("interval.ms", "99"),
        ("interval.ms", "3600001"),
        ("interval.ms", "soon"),
        ("match", "client_id"),
        ("match", "client_id=(a"),
        ("match", "host=x"),
        ("match", "client_id=(?=a)b"),
        ("metrics", "m" * (SUBSCRIPTION_CHARS_MAX + 1)),
        ("retention.ms", "1"),
    ],
)
def test_a_wrong_subscription_is_refused_here(config: tuple[str, str]) -> None:
    client = Telling()
    answer = _alter(client, _config(*config))
    assert answer.error_code is ErrorCode.invalid_config and answer.error_message
    assert not client.host.around.access_orders


def test_names_are_plain_and_only_validating_changes_nothing() -> None:
    client = Telling()
    assert _alter(client, _config("metrics", "a."), name="a b").error_code is ErrorCode.invalid_config
    assert _alter(client, _config("metrics", "a."), validate_only=True).error_code is ErrorCode.none
    assert not client.host.around.access_orders


def test_the_control_planes_refusal_is_told() -> None:
    client = Telling()
    client.host.around.access_answer = AccessAnswer(refusal="too many")
    answer = _alter(client, _config("metrics", "a."))
    assert (answer.error_code, answer.error_message) == (ErrorCode.policy_violation, "too many")


def test_who_may_not_alter_the_cluster_may_not_subscribe() -> None:
    client = Client()
    resource = {"resource_type": 16, "resource_name": "x", "configs": [_config("metrics", "a.")]}
    (answer,) = client.call(ALTER, 1, resources=[resource]).responses
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    (told,) = client.call(DESCRIBE, 4, resources=[{"resource_type": 16, "resource_name": "x"}]).results
    assert told.error_code is ErrorCode.cluster_authorization_failed
