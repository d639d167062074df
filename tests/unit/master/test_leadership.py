"""Whose partitions count: each point's own word, and of those not heard of the others' metadata."""

from contracts.quota import leaders_version
from master.quota.leadership import Heard, Leadership, leadership
from master.quota.ledger import Entry

FRESH, LATE, SILENT = 0, 1_600, 3_000


def heard(
    node_id: int,
    led: int,
    age_ms: int = FRESH,
    leaders: dict[int, int] | None = None,
    version: int = 1,
    stored: int = 0,
) -> Heard:
    return Heard(
        Entry(
            f"broker-{node_id}",
            node_id,
            "i",
            partitions_led=led,
            stored_bytes=stored,
            leaders=leaders or {},
            leaders_version=version,
        ),
        age_ms,
    )


def judged(*all_heard: Heard) -> Leadership:
    return leadership(all_heard, silent_ms=3_000, late_ms=1_500)


def led(result: Leadership) -> dict[int, int]:
    return {entry.node_id: entry.partitions_led for entry in result.entries}


def test_without_metadata_everyones_word_counts_and_silence_reserves() -> None:
    result = judged(heard(1, 2), heard(2, 1, SILENT), heard(3, 0))
    assert led(result) == {1: 2, 2: 1}
    assert result.silent == (False, True) and result.is_settled


def test_a_silent_broker_that_still_leads_stays() -> None:
    view = {1: 1, 2: 1}
    result = judged(heard(1, 1, leaders=view), heard(2, 1, SILENT, leaders=view))
    assert led(result) == {1: 1, 2: 1} and result.silent == (False, True) and result.is_settled


def test_a_silent_broker_that_leads_nothing_any_more_is_out_at_once() -> None:
    before, after = {1: 1, 2: 1}, {1: 2}
    result = judged(heard(1, 2, leaders=after, version=2), heard(2, 1, SILENT, leaders=before))
    assert led(result) == {1: 2} and result.silent == (False,) and result.is_settled


def test_a_missed_report_is_enough_when_the_others_know_newer_leaders() -> None:
    after = {1: 2, 2: 0}
    result = judged(heard(1, 2, leaders=after, version=2), heard(2, 1, LATE, leaders={1: 1, 2: 1}))
    assert led(result) == {1: 2}


def test_a_missed_report_alone_changes_nothing() -> None:
    view = {1: 1, 2: 1}
    result = judged(heard(1, 1, leaders=view, version=5), heard(2, 3, LATE, leaders={}, version=5))
    assert led(result) == {1: 1, 2: 3} and not result.is_settled


def test_a_broker_that_reports_is_believed_though_others_say_it_leads_nothing() -> None:
    result = judged(heard(1, 2, leaders={1: 2}, version=2), heard(2, 1, leaders={1: 1, 2: 1}))
    assert led(result) == {1: 2, 2: 1}
    assert not result.is_settled, "one partition is counted twice"


def test_the_newest_word_wins_and_a_silent_brokers_is_not_heard() -> None:
    result = judged(
        heard(1, 1, leaders={1: 1, 2: 1, 3: 1}, version=3),
        heard(2, 1, leaders={1: 1, 2: 2}, version=4),
        heard(3, 1, SILENT, leaders={3: 3}, version=9),
    )
    assert led(result) == {1: 1, 2: 1}
    assert not result.is_settled, "broker 2 has not yet counted what it took over"


def test_what_is_left_of_a_silent_broker_takes_its_part_of_the_stored_bytes_along() -> None:
    result = judged(
        heard(1, 2, leaders={1: 2, 2: 1}, version=2),
        heard(2, 2, SILENT, leaders={1: 1, 2: 2}, stored=1_000),
    )
    assert [entry.stored_bytes for entry in result.entries] == [0, 500]


def test_versions_grow_with_leaders_partitions_and_controllers() -> None:
    assert leaders_version(1, [0]) < leaders_version(1, [0, 0]) < leaders_version(1, [0, 1])
    assert leaders_version(1, [10**6]) < leaders_version(2, [0])
    assert leaders_version(-1, []) == 0 == leaders_version(0, [-1]) - 1
