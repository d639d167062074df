"""Plans of reassignments: read, checked, made and watched."""

import json

import pytest

from ctl.errors import CommandError
from ctl.tools.partitions import PartitionRow
from ctl.tools.reassignment import Ongoing, progress
from ctl.tools.reassignment_plan import Draw, decode, encode, faults, generate, throttled_replicas, topics_of
from ctl.tools.topic_admin import parse_assignment

ROWS = [PartitionRow("t", each, 1, (1, 2, 3), (1, 2, 3), ()) for each in range(6)]
PLAN = {("t", 0): (4, 5, 6), ("t", 1): (3, 2, 1)}


def test_a_plan_is_kafkas_json() -> None:
    text = json.dumps(encode(PLAN))
    assert json.loads(text)["partitions"][0] == {"topic": "t", "partition": 0, "replicas": [4, 5, 6]}
    assert decode(text, "f") == PLAN
    kafkas = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    assert decode(kafkas, "f") == {("t", 0): (1,)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "is not like"),
        ('{"partitions": 7}', "is not like"),
        ('{"partitions": [{"topic": "t"}]}', "is not like"),
        ('{"partitions": []}', "names no partition"),
        ('{"version": 2, "partitions": []}', "version 2"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "empty"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "a broker twice"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
         ' {"topic": "t", "partition": 0, "replicas": [2]}]}', "names partition t-0 twice"),
    ],
)  # fmt: skip
def test_what_is_no_plan(text: str, says: str) -> None:
    with pytest.raises(CommandError, match=says) as caught:
        decode(text, "plan.json")
    assert caught.value.code == 2


def test_topics_to_move() -> None:
    assert topics_of('{"topics": [{"topic": "a"}, {"topic": "b"}], "version": 1}', "f") == ["a", "b"]
    with pytest.raises(CommandError, match="is not like"):
        topics_of('{"topics": ["a"]}', "f")


def test_a_generated_plan_keeps_the_factor_and_spreads_leaders() -> None:
    plan = generate(ROWS, dict.fromkeys((4, 5, 6, 7)), [Draw(1, 2)])
    assert plan.keys() == {("t", each) for each in range(6)}
    assert all(len(set(replicas)) == 3 and set(replicas) <= {4, 5, 6, 7} for replicas in plan.values())
    leaders = [replicas[0] for replicas in plan.values()]
    assert max(map(leaders.count, (4, 5, 6, 7))) - min(map(leaders.count, (4, 5, 6, 7))) <= 1
    with pytest.raises(CommandError, match="topic t"):
        generate(ROWS, dict.fromkeys((4, 5)), [Draw(0, 0)])
    two = generate(ROWS, dict.fromkeys((4, 5)), [Draw(0, 0)], 2)
    assert all(set(replicas) == {4, 5} for replicas in two.values())


def test_faults_of_a_plan() -> None:
    assert faults({("t", 0): (1, 2)}, ROWS, (1, 2, 3)) == []
    assert faults({("t", 9): (1, 8)}, ROWS, (1, 2, 3)) == [
        "partition t-9 does not exist",
        "broker 8 is not registered",
    ]


def test_only_moving_replicas_are_throttled() -> None:
    (found,) = throttled_replicas(PLAN, ROWS).items()
    assert found == ("t", ("0:1,0:2,0:3", "0:4,0:5,0:6"))


def test_how_far_a_plan_is() -> None:
    plan = {("t", 0): (4, 5, 6), ("t", 1): (1, 2, 3), ("t", 2): (2, 1, 3), ("u", 0): (1,)}
    moving = {("t", 0): Ongoing((1, 2, 3, 4, 5, 6), (4, 5, 6), (1, 2, 3))}
    found = progress(plan, ROWS, moving)
    assert [one.state for one in found] == ["in progress", "complete", "differs", "missing"]
    assert found[0].detail == "not in sync yet: 4, 5, 6"
    caught_up = [ROWS[0]._replace(isr=(1, 2, 3, 4, 5, 6)), *ROWS[1:]]
    assert "last step" in progress({("t", 0): (4, 5, 6)}, caught_up, moving)[0].detail


def test_assignments_of_the_topic_tool() -> None:
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]
    for text in ("1:x", "1:1", "1:2,3", ""):
        with pytest.raises(CommandError):
            parse_assignment(text)
