"""docs/metrics.md lists what the processes of a stack tell, neither more nor less.

`PORTICO_REWRITE=1 pytest tests/e2e/test_metrics_page.py` puts the list into the page.
"""

import os
import re
import time
from collections import defaultdict
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.test_commands import portico
from tests.integration.stack import ROOT, Stack

PAGE: Final = ROOT / "docs" / "metrics.md"
_BEGIN: Final = "<!-- made by tests/e2e/test_metrics_page.py -->"
_OURS: Final = "portico_"
_KINDS: Final = {"control": "Control", "broker": "Brokers", "gateway": "Gateways"}


@pytest.fixture(scope="module")
def told(stack: Stack) -> dict[str, list[Any]]:
    """Families of each kind of process, after some of everything has happened."""
    made = stack.create_instance("metrics-page")
    topic = {"name": "orders", "partitions": 2}
    stack.api("POST", f"instances/{made['id']}/topics", topic)
    client = {"bootstrap.servers": made["bootstrap_servers"]}
    producer = Producer(client)
    for number in range(20):
        producer.produce("orders", str(number).encode())
    assert producer.flush(60) == 0
    consumer = Consumer({**client, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 60
    while (message := consumer.poll(1.0)) is None or message.error():
        assert time.monotonic() < deadline
    consumer.commit(message, asynchronous=False)
    consumer.close()
    found: dict[str, list[Any]] = {}
    lag = re.compile(rf'^portico_group_lag_records\{{.*instance="{made["id"]}"', re.MULTILINE)
    while not lag.search("".join(texts := [_text(stack, name) for name in _names(stack)])):
        assert time.monotonic() < deadline + 60, "the lag of the group is not told"
        time.sleep(0.5)
    for name, text in zip(_names(stack), texts, strict=True):
        families = [
            each
            for each in text_string_to_metric_families(text)
            if each.name.startswith(_OURS) and not each.name.endswith("_created")
        ]
        found.setdefault(name.partition("-")[0], []).extend(families)
    stack.api("DELETE", f"instances/{made['id']}")
    return {**found, "instance": [made]}


def _names(stack: Stack) -> list[str]:
    return sorted(stack.facts["metrics"])


def _text(stack: Stack, process: str) -> str:
    result = portico(stack, "metrics", process)
    assert result.returncode == 0, result.stderr
    return result.stdout


def _rows(families: list[Any], page: str) -> list[str]:
    """One line per metric; labels that no sample shows now are taken from the page."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    facts = {}
    for family in families:
        facts[family.name] = (family.type, family.documentation)
        for sample in family.samples:
            labels[family.name] |= set(sample.labels) - {"le"}
    rows = []
    for name, (kind, text) in sorted(facts.items()):
        shown = f"{name}_total" if kind == "counter" else name
        known = next((line for line in page.splitlines() if line.startswith(f"| `{shown}` |")), "")
        of_page = known.split("|")[3].strip() if known else ""
        names = ", ".join(f"`{label}`" for label in sorted(labels[name])) or of_page
        rows.append(f"| `{shown}` | {kind} | {names} | {text.rstrip('.').replace('|', ' or ')} |")
    return rows


def test_the_page_lists_every_metric(told: dict[str, list[Any]]) -> None:
    page = PAGE.read_text()
    head, begin, _ = page.partition(_BEGIN)
    assert begin, f"{PAGE} has no mark"
    parts = [head + _BEGIN]
    for kind, title in _KINDS.items():
        table = ["| metric | type | labels | meaning |", "|---|---|---|---|", *_rows(told[kind], page)]
        parts.append(f"\n\n## {title}\n\n" + "\n".join(table))
    made = "".join(parts) + "\n"
    if os.environ.get("PORTICO_REWRITE"):
        PAGE.write_text(made)
    assert page == made or os.environ.get("PORTICO_REWRITE"), "PORTICO_REWRITE=1 writes it anew"


def test_every_metric_says_what_it_is_in_base_units(told: dict[str, list[Any]]) -> None:
    for kind in _KINDS:
        for family in told[kind]:
            assert family.documentation, family.name
            assert not family.name.endswith(("_ms", "_kb", "_mb", "_us", "_ns", "_percent")), family.name


def test_an_instance_is_joined_by_its_id_and_never_by_a_name_alone(told: dict[str, list[Any]]) -> None:
    (made,) = told["instance"]
    (info,) = (each for each in told["control"] if each.name == "portico_instance_info")
    (sample,) = (each for each in info.samples if each.labels["instance"] == made["id"])
    assert sample.labels == {"instance": made["id"], "tenant": "default", "name": "metrics-page"}
    (lag,) = (each for each in told["broker"] if each.name == "portico_group_lag_records")
    of_group = [each for each in lag.samples if each.labels["instance"] == made["id"]]
    assert {(each.labels["group"], each.labels["topic"]) for each in of_group} == {("readers", "orders")}


def test_histograms_have_no_instance_and_routes_no_paths(told: dict[str, list[Any]]) -> None:
    made = told["instance"][0]
    for kind in _KINDS:
        for family in told[kind]:
            if family.type == "histogram":
                assert not any("instance" in each.labels for each in family.samples), family.name
                assert not any(made["id"] in str(each.labels) for each in family.samples), family.name
    (routes,) = (each for each in told["control"] if each.name == "portico_console_route_seconds")
    assert "/v1/instances/{instance}/topics" in {each.labels["route"] for each in routes.samples}


def test_requests_are_timed_where_they_pass(told: dict[str, list[Any]]) -> None:
    counted: dict[str, dict[str, float]] = defaultdict(dict)
    for kind in ("broker", "gateway"):
        for family in told[kind]:
            for sample in family.samples:
                if sample.name.endswith("_count") and "api" in sample.labels:
                    counted[family.name][sample.labels["api"]] = sample.value
    assert {"produce", "fetch", "metadata"} <= set(counted["portico_gateway_answer_seconds"])
    assert {"produce", "fetch"} <= set(counted["portico_broker_request_seconds"])
    assert set(counted["portico_broker_request_remote_seconds"]) <= set(
        counted["portico_broker_request_seconds"]
    )
