"""What a drill's verdict is made of: each thing that is wrong fails it."""

from typing import Any

import pytest

from ctl.drills.judge import Facts, judge

GOOD = Facts(
    acknowledged={0: [0, 2, 4], 1: [1, 3]},
    stored={0: [0, 2, 4, 6], 1: [1, 3]},
    refused=[],
    alerts_wanted=("Down",),
    alerts_seen={"Down", "Other"},
    sign="it stood still",
    recovered_after_s=1.5,
    within_s=90,
)


def test_a_record_that_was_stored_and_not_acknowledged_is_no_fault() -> None:
    checks = judge(GOOD)
    assert all(check.holds for check in checks)
    assert {check.what: check.found for check in checks}["nothing acknowledged is lost"] == "0 of 5 lost"


@pytest.mark.parametrize(
    ("wrong", "what", "found"),
    [
        ({"acknowledged": {0: [], 1: []}}, "records were acknowledged", "0"),
        ({"stored": {0: [0, 4]}}, "nothing acknowledged is lost", "3 of 5 lost"),
        ({"stored": {0: [0, 2, 2, 4], 1: [1, 3]}}, "nothing is doubled or reordered", "in 1 partitions"),
        ({"stored": {0: [0, 4, 2], 1: [3, 1]}}, "nothing is doubled or reordered", "in 2 partitions"),
        ({"refused": ["timed out"]}, "clients were given no error", "1 records given up: timed out"),
        ({"alerts_seen": {"Other"}}, "the alert would fire", "not seen: Down"),
        ({"sign": None}, "it showed", "not while it lasted"),
        ({"recovered_after_s": None}, "recovered within 90 s", "no"),
    ],
)
def test_each_fault_fails_its_check_alone(wrong: dict[str, Any], what: str, found: str) -> None:
    failed = [check for check in judge(GOOD._replace(**wrong)) if not check.holds]
    assert [(check.what, check.found) for check in failed] == [(what, found)]
