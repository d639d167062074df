"""`portico pipeline jobs`: what is printed of a run, and wrong usage."""

from pathlib import Path

import pytest

from ctl.commands.pipeline.jobs import _again_and_again, _row, jobs
from ctl.console_client import Console
from ctl.errors import EXIT_USAGE, CommandError
from ctl.output import Answer

RUN = {
    "started_at": "2026-11-21T21:10:38.871000Z",
    "updated_at": "2026-11-21T21:10:48.871000Z",
    "job": "load",
    "subject": "shop orders",
    "state": "running",
    "planned": 2_000_000,
    "done": 1_250_000,
    "unit": "records",
    "rate_per_s": 125_000.0,
    "figures": {"rows": 1_250_000, "lag_records": 750_000},
    "error": "",
}


def test_a_run_in_one_line() -> None:
    assert _row(RUN) == [
        "2026-11-21 21:10:38",
        "load",
        "shop orders",
        "running",
        "1,250,000 of 2,000,000 records",
        "125,000/s",
        "10.0 s",
        "-",
        "lag_records=750,000 rows=1,250,000",
    ]
    assert _row(RUN | {"planned": 0, "error": "disk full"})[4::4] == ["1,250,000 records", "disk full"]


def test_what_a_run_costs_for_each_gb() -> None:
    figures = {"cpu_ms": 30_000, "bytes": 2 * 10**9}
    assert _row(RUN | {"figures": figures})[7] == "15.0"
    assert _row(RUN | {"figures": {"cpu_ms": 500}, "unit": "bytes", "done": 10**8})[7] == "5.0"
    assert _row(RUN | {"figures": {"cpu_ms": 500}})[7] == "-"


def test_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        jobs(Console.of(tmp_path), state="sleeping")
    assert refused.value.code == EXIT_USAGE


def test_who_watches_gets_one_answer_after_the_other() -> None:
    asked = iter(range(3))
    answers = _again_and_again(lambda: Answer({"items": next(asked)}, lambda: print("shown")))
    assert next(answers).document == {"items": 0}
    assert next(answers).document == {"items": 1}
