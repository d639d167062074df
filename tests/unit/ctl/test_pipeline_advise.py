"""What `portico pipeline advise` prints and writes."""

import datetime
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from contracts.advice import AdviceRow, ForecastRow, MoveRow, SkewRow, Urgency
from contracts.pipeline import JobState, JobStatus
from ctl.command import with_shared_options
from ctl.commands.pipeline.advise import _document, advise, show
from ctl.pipeline.advising import Given, write_plans
from ctl.tools.reassignment_plan import decode
from pipeline.advice.job import Advised, as_table
from pipeline.advice.judging.judgement import Bought
from pipeline.advice.judging.moves import Moves
from pipeline.advice.judging.skew import Balance
from pipeline.advice.rows import Seen, advice_row, with_moves
from tests.unit.pipeline.test_advice_rows import skew_row

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
    produce = skew_row("produce", {1: 90, 2: 9, 3: 2}, throttled_ms=5)
    seen = Seen(balance=Balance((produce,), stored_bytes=9_000))
    bought = Bought(instance_id, 20_000_000, 40_000_000, 10**9 if moves.rows else 9_000)
    return with_moves(advice_row(bought, seen, None, DAY, 1), moves)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    moves = Moves((move(0, 1), move(4, 2)), "broker 1 carries 90%")
    rows = [advice("iaaaaaaaaaaa", moves), advice("ibbbbbbbbbbb", Moves())]
    advised = Advised(rows, list(moves.rows), as_table([], ForecastRow), as_table([], SkewRow))
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


@pytest.fixture
def empty_console(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[JobStatus]]:
    """A console without instances, and what it was told of runs."""
    statuses: list[JobStatus] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path.partition("?")[0] == "/v1/instances"
            self._answer(b'{"items": [], "next_cursor": null}')

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            statuses.append(msgspec.json.decode(body, type=JobStatus))
            self._answer(b"{}")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PORTICO_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PORTICO_API_KEY", "pk_test")
    yield statuses
    server.shutdown()
    server.server_close()


def test_without_instances_there_is_nothing_to_advise_and_nothing_has_failed(
    empty_console: list[JobStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {
        "instance": None,
        "backtest": False,
        "sample_s": 0,
        "tenant": None,
        "data_dir": tmp_path,
    }
    command = with_shared_options(advise)
    asked |= {"master": None, "remote": None, "spark_conf": None}
    command(**asked, bootstrap=None, secret_file=None, cluster_name=None, as_json=False)
    assert "There is no instance to advise on" in capsys.readouterr().out
    command(**asked, bootstrap=None, secret_file=None, cluster_name=None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"advice": [], "moves": [], "plans": {}}
    assert empty_console[-1].state is JobState.SUCCEEDED
    assert empty_console[-1].figures.keys() == {"instances", "moves", "cpu_ms"}
