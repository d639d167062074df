"""Invented activity: the same seed gives the same bytes, and its truth is what the bytes say."""

import json
from collections import Counter, defaultdict
from itertools import islice

import pytest

from pipeline.activity.records import LATE_MS, Record, Schedule, Truth
from pipeline.activity.world import (
    HOUR_MS,
    MINUTE_MS,
    OFFICE_IP,
    OFFICE_USERS,
    Plan,
    invent,
    user_text,
)

START_MS = 1_700_000_040_000
PLAN = Plan(12_000, START_MS, 24 * HOUR_MS, 7)


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    return Schedule(invent(PLAN))


@pytest.fixture(scope="module")
def records(schedule: Schedule) -> list[Record]:
    return list(schedule)


def intact(records: list[Record], topic: str) -> dict[str, dict[str, object]]:
    """Distinct events of a topic by id, read as a stranger would."""
    found = {}
    for record in records:
        if record.topic == topic:
            try:
                event = json.loads(record.value)
            except ValueError:
                continue
            if "id" in event and isinstance(event["ts"], int) and event["ts"] <= record.due_ms:
                found[event["id"]] = event
    return found


def test_the_same_plan_gives_the_same_records(records: list[Record]) -> None:
    assert list(Schedule(invent(PLAN))) == records
    other = Plan(PLAN.events, PLAN.start_ms, PLAN.span_ms, PLAN.seed + 1)
    assert list(islice(Schedule(invent(other)), 50)) != records[:50]


def test_about_as_many_as_planned_in_order_of_arrival_within_the_span(records: list[Record]) -> None:
    assert 0.97 * PLAN.events < len(records) < 1.03 * PLAN.events
    due = [record.due_ms for record in records]
    assert due == sorted(due)
    assert due[0] >= START_MS and due[-1] <= START_MS + PLAN.span_ms


def test_the_truth_is_what_the_records_say(schedule: Schedule, records: list[Record]) -> None:
    truth = schedule.truth()
    sent = Counter(record.topic for record in records)
    views: dict[str, Counter[int]] = defaultdict(Counter)
    for topic in truth.records:
        found = intact(records, topic)
        assert truth.records[topic] == sent[topic]
        assert truth.events[topic] == len(found)
        assert truth.damaged[topic] >= 1
        assert truth.duplicates[topic] == sent[topic] - len(found) - truth.damaged[topic]
        if topic == "page_views":
            for event in found.values():
                views[str(event["page"])][int(str(event["ts"])) // MINUTE_MS * MINUTE_MS] += 1
    assert truth.views == views
    late = sum(
        record.due_ms - json.loads(record.value)["ts"] >= LATE_MS
        for record in records
        if record.topic == "page_views" and record.value.endswith(b"}") and b'"ts":1' in record.value
    )
    assert (
        abs(late - truth.late["page_views"]) <= truth.duplicates["page_views"] + truth.damaged["page_views"]
    )
    assert truth.late["page_views"] > 0


def test_only_attackers_hammer(schedule: Schedule, records: list[Record]) -> None:
    truth = schedule.truth()
    assert {attack.rule for attack in truth.attacks} == {"ip", "account"}
    by_ip: dict[str, list[int]] = defaultdict(list)
    failed: dict[str, list[int]] = defaultdict(list)
    for event in intact(records, "logins").values():
        by_ip[str(event["ip"])].append(int(str(event["ts"])))
        if not event["ok"]:
            failed[str(event["account"])].append(int(str(event["ts"])))
    hammered = {("ip", ip) for ip, times in by_ip.items() if most_in_five_minutes(times) >= 60}
    hammered |= {("account", name) for name, times in failed.items() if most_in_five_minutes(times) >= 20}
    assert hammered == {(attack.rule, attack.source) for attack in truth.attacks}
    of_office = by_ip[OFFICE_IP]
    assert len(of_office) > 3 and most_in_five_minutes(of_office) < 60
    assert user_text(OFFICE_USERS - 1) < min(a.source for a in truth.attacks if a.rule == "account")


def most_in_five_minutes(times: list[int]) -> int:
    times = sorted(times)
    return max(sum(1 for other in times if time <= other < time + 5 * MINUTE_MS) for time in times)


def test_one_service_fails_for_a_while(schedule: Schedule, records: list[Record]) -> None:
    incident = schedule.truth().incident
    inside, outside = [0, 0], [0, 0]
    for event in intact(records, "service_metrics").values():
        ill = event["service"] == incident.service
        ill = ill and incident.start_ms <= int(str(event["ts"])) < incident.end_ms
        counted = inside if ill else outside
        counted[0] += int(str(event["errors"]))
        counted[1] += int(str(event["requests"]))
    assert inside[0] / inside[1] > 0.25 and outside[0] / outside[1] < 0.02


@pytest.mark.parametrize("events", [0, 1, 7, 60, 999])
def test_small_worlds_are_worlds(events: int) -> None:
    schedule = Schedule(invent(Plan(events, START_MS, MINUTE_MS, 1)))
    truth = schedule.truth()
    assert isinstance(truth, Truth)
    assert len(list(schedule)) == sum(truth.records.values())
    assert truth.attacks == []
