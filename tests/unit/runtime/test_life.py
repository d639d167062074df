"""A process whose loop hangs ends itself."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.life import VARIABLE, Life, timeout_ms

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_MS = 30_000


class Ends:
    """What a Life does to its process."""

    def __init__(self) -> None:
        self.put_off: list[float] = []
        self.spared = 0
        self.life = Life(TIMEOUT_MS, self.put_off.append, self._spare)

    def _spare(self) -> None:
        self.spared += 1


def test_the_end_is_put_off_by_every_beat_once_the_process_serves() -> None:
    ends = Ends()
    ends.life.beat("main", 0)
    assert ends.put_off == []
    ends.life.serving()
    ends.life.beat("main", 1_000)
    ends.life.beat("main", 2_000)
    assert ends.put_off == [30.0, 30.0]


def test_one_loop_that_is_silent_is_not_made_up_for_by_another() -> None:
    ends = Ends()
    ends.life.serving()
    ends.life.beat("internal", 0)
    ends.life.beat("main", TIMEOUT_MS - 1)
    assert len(ends.put_off) == 2
    ends.life.beat("main", TIMEOUT_MS)
    assert len(ends.put_off) == 2
    ends.life.beat("internal", TIMEOUT_MS + 1)
    assert len(ends.put_off) == 3


def test_a_loop_that_ended_in_good_order_is_not_missed() -> None:
    ends = Ends()
    ends.life.serving()
    ends.life.beat("internal", 0)
    ends.life.ended("internal")
    assert ends.spared == 1
    ends.life.beat("main", 10 * TIMEOUT_MS)
    assert len(ends.put_off) == 2
    ends.life.ended("main")
    assert ends.spared == 2


def test_a_wrong_time_is_refused() -> None:
    assert timeout_ms({}) == 0
    assert timeout_ms({VARIABLE: "500"}) == 500
    with pytest.raises(SystemExit, match=VARIABLE):
        timeout_ms({VARIABLE: "30s"})


def test_a_process_that_hangs_says_where_and_ends() -> None:
    program = """
import asyncio, re
from runtime import process
from runtime.life import LIFE

async def main():
    LIFE.serving()
    await asyncio.sleep(2.5)  # longer than the time that is allowed: the loop goes on
    print("hangs", flush=True)
    re.match(r"(a+)+$", "a" * 64 + "b")  # in C, with the interpreter's lock held

process.run(main)
"""
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={VARIABLE: "2000", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.stdout == "hangs\n"
    assert ended.returncode == 1
    assert "Timeout (0:00:02)!" in ended.stderr and "in main" in ended.stderr
    assert time.monotonic() - started > 4
