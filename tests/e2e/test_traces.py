"""Traces of the real processes at a real collector, and nothing of them where they are off."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from tests.e2e.test_commands import portico
from tests.integration.stack import ROOT, Stack, running_stack
from tests.servers.collector import Collector, attributes, running_collector

_SERVER, _CLIENT = 2, 3
_CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Stack]:
    """A stack that tells all its spans."""
    variables = {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=se%20cret",
        "OTEL_SEMCONV_STABILITY_OPT_IN": "messaging",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    place = tmp_path_factory.mktemp("traced") / "data"
    told = ("--otlp-endpoint", collector.url, "--traces-per-second", "1000")
    with running_stack(place, *told, environment=variables) as stack:
        yield stack


@pytest.fixture(scope="module")
def instance(traced: Stack) -> dict[str, Any]:
    made = traced.create_instance("traced")
    traced.api("POST", f"instances/{made['id']}/topics", {"name": "orders", "partitions": 1})
    return made


def test_a_produce_is_a_span_of_the_gateway_and_a_child_of_it_in_the_broker(
    collector: Collector, instance: dict[str, Any]
) -> None:
    client = {"bootstrap.servers": instance["bootstrap_servers"], "client.id": "till-7"}
    producer = Producer(client)
    for number in range(
        3
    ):  # the first of a connection goes up before the broker has said that it takes traces
        producer.produce("orders", str(number).encode())
        assert producer.flush(60) == 0

    def family() -> tuple[Any, Any, Any] | None:
        for server in collector.named("portico-gateway", portico__kafka__api="produce"):
            for client in collector.named("portico-gateway"):
                for broker in collector.named("portico-broker", portico__kafka__api="produce"):
                    if client.parent_span_id == server.span_id and broker.parent_span_id == client.span_id:
                        return server, client, broker
        return None

    server, upstream, broker = collector.until(family)
    assert server.trace_id == upstream.trace_id == broker.trace_id and not server.parent_span_id
    assert (server.name, server.kind, upstream.kind, broker.kind) == ("send", _SERVER, _CLIENT, _SERVER)
    told = attributes(server)
    expected = {
        "portico.instance.id": instance["id"],
        "portico.tenant": "default",
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "till-7",
    }
    assert expected.items() <= told.items()
    assert [event.name for event in server.events] == ["mapped"]
    assert server.start_time_unix_nano <= upstream.start_time_unix_nano <= broker.start_time_unix_nano
    assert broker.start_time_unix_nano <= server.end_time_unix_nano  # the broker books when its answer is out
    assert attributes(broker)["portico.instance.id"] == instance["id"]
    assert collector.headers["x-key"] == "se cret"


def test_a_fetch_that_waits_shows_its_time_in_purgatory_and_a_group_its_name(
    collector: Collector, instance: dict[str, Any]
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": instance["bootstrap_servers"],
            "group.id": "billing",
            "auto.offset.reset": "latest",
        }
    )
    consumer.subscribe(["orders"])
    consumer.poll(3.0)

    def waited() -> Any:
        fetches = {span.span_id for span in collector.named("portico-broker", portico__kafka__api="fetch")}
        parts = [
            span for kind, span in collector.spans if kind == "portico-broker" and span.name == "purgatory"
        ]
        return [span for span in parts if span.parent_span_id in fetches]

    collector.until(waited)
    assert collector.until(
        lambda: collector.named("portico-gateway", messaging__consumer__group__name="billing")
    )
    consumer.close()


def test_a_call_of_the_console_goes_on_with_its_callers_trace(traced: Stack, collector: Collector) -> None:
    answer = httpx.get(
        f"{traced.console_url}/v1/instances",
        headers={
            "Authorization": f"Bearer {traced.api_key}",
            "traceparent": _CALLER,
            "X-Request-Id": "mine-1",
        },
        trust_env=False,
        timeout=60,
    )
    assert answer.status_code == 200

    def found() -> Any:
        return collector.named("portico-control", portico__request_id="mine-1")

    (span,) = collector.until(found)
    assert span.trace_id.hex() == _CALLER.split("-")[1] and span.parent_span_id.hex() == _CALLER.split("-")[2]
    told = attributes(span)
    assert told["http.route"] == "/v1/instances" and told["portico.tenant"] == "default"

    def statements() -> Any:
        spans = [each for kind, each in collector.spans if kind == "portico-control"]
        mine = [each for each in spans if each.trace_id == span.trace_id]
        return [each for each in mine if "db.statement" in attributes(each)]

    assert all(each.kind == _CLIENT for each in collector.until(statements))


def test_what_is_told_and_dropped_is_counted(traced: Stack) -> None:
    for process in traced.facts["metrics"]:
        text = portico(traced, "metrics", process, "--grep", "portico_spans").stdout
        assert "portico_spans_exported_total " in text and "portico_spans_dropped_total 0.0" in text


def _pids(stack: Stack) -> list[int]:
    pids = stack.facts["pids"]
    return [pid for group in ("control", "brokers", "gateways") for pid in pids[group]]


def _exports(pid: int) -> bool:
    """Whether the process has loaded what spans are encoded with."""
    return "google/_upb" in Path(f"/proc/{pid}/maps").read_text()


def test_a_process_without_traces_has_loaded_nothing_of_them(stack: Stack, traced: Stack) -> None:
    assert [_exports(pid) for pid in _pids(traced)] == [True] * len(_pids(traced))
    # Gateways load it, too, when a client pushes metrics of its own.
    assert not any(_exports(pid) for pid in _pids(stack) if pid not in stack.facts["pids"]["gateways"])
    for process in stack.facts["metrics"]:
        assert "portico_spans" not in portico(stack, "metrics", process).stdout


@pytest.mark.parametrize("module", ["gateway.app", "broker.__main__", "broker.control.reporting"])
def test_gateways_and_brokers_do_not_even_import_its_interface(module: str) -> None:
    program = f"import {module}, sys; sys.exit(sum(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60).returncode == 0
