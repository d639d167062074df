"""What `portico pipeline advise` prints and writes."""

import datetime
import json
from pathlib import Path

import pytest

from contracts.advice import AdviceRow, MoveRow, Urgency
from contracts.quota import Direction
from ctl.commands.pipeline.advise import _document, show
from ctl.pipeline.advising import Given, write_plans
from ctl.tools.reassignment_plan import decode
from pipeline.advice.job import Advised
from pipeline.advice.judgement import Bought
from pipeline.advice.rows import Seen, advice_row
from pipeline.advice.skewed import Moves
from pipeline.advice.tables import as_table
from pipeline.schema.advice import FORECAST, SKEW

DAY = datetime.date(2026, 11, 21)


def move(partition: int, step: int) -> MoveRow:
    return MoveRow(
        run_date=DAY,
        instance_id="iaaaaaaaaaaa",
        topic="iaaaaaaaaaaa.orders",
        partition=partition,
        from_node_id=1,
        to_node_id=3,
        replicas=[3, 1],
        is_leadership_only=step == 1,
        moved_bytes=0 if step == 1 else 5_000_000,
        load_share=0.4,
        usable_share_before=0.37,
        usable_share_after=0.67,
        step=step,
    )


def advice(instance_id: str, moves: Moves) -> AdviceRow:
    seen = Seen(
        {}, {Direction.PRODUCE: {"usable_share": 0.374, "throttled_total_ms": 5}}, {"stored_bytes": 9_000}
    )
    bought = Bought(instance_id, 20_000_000, 40_000_000, 10**9 if moves.rows else 9_000)
    return advice_row(bought, seen, moves, None, DAY, 1)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    moves = Moves((move(0, 1), move(4, 2)), "broker 1 carries 90%")
    rows = [advice("iaaaaaaaaaaa", moves), advice("ibbbbbbbbbbb", Moves())]
    advised = Advised(rows, list(moves.rows), as_table([], SKEW), as_table([], FORECAST))
    names = {"iaaaaaaaaaaa": "shop", "ibbbbbbbbbbb": "full"}
    return Given(advised, names, write_plans(tmp_path / "moves", moves.rows))


def test_the_urgent_one_is_first_and_moves_come_with_commands(
    given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [row.urgency for row in given.advised.advice] == [Urgency.SOON, Urgency.NOW]
    show(given)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["full", "(ibbbbbbbbbbb)", "now"]
    assert "20 MB/s, keep" in lines[2] and "0.37 / -" in lines[2]
    text = "\n".join(lines)
    assert "shop: not enough data for a forecast (0 h of 336 h needed)" in text
    assert "shop: broker 1 carries 90%" in text
    path = given.plans["iaaaaaaaaaaa"]
    assert f"portico reassign execute {path} " in text
    assert f"portico leader elect-preferred --file {path}" in text
    assert "nothing" in text and "5 MB" in text


def test_the_plan_is_one_that_reassign_reads(given: Given) -> None:
    path = given.plans["iaaaaaaaaaaa"]
    topic = "iaaaaaaaaaaa.orders"
    assert decode(path.read_text(), str(path)) == {(topic, 0): (3, 1), (topic, 4): (3, 1)}


def test_json_is_plain(given: Given) -> None:
    document = json.loads(json.dumps(_document(given, details=True)))
    assert set(document) == {"advice", "moves", "plans", "skew", "forecast"}
    assert document["advice"][0]["run_date"] == "2026-11-21"
    assert [row["partition"] for row in document["moves"]] == [0, 4]
    assert set(_document(given, details=False)) == {"advice", "moves", "plans"}
