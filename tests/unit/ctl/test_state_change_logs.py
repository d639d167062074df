"""Logs of several brokers become one story."""

import json
from pathlib import Path

import pytest

from ctl.errors import CommandError
from ctl.tools.state_change_logs import Wanted, files_of, merge, sentence


def line(ts: int, broker: int, topic: str = "t", partition: int = 0, **more: object) -> str:
    fields = {"ts": ts, "broker": broker, "event": "received", "peer": 1, "request": "LeaderAndIsr"}
    return json.dumps(fields | {"topic": topic, "partition": partition, "controller_epoch": 3} | more)


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    first, second = tmp_path / "broker-1" / "state-change.log", tmp_path / "broker-2" / "state-change.log"
    for path in (first, second):
        path.parent.mkdir()
    first.write_text("\n".join([line(10, 1), line(30, 1, partition=1), line(50, 1, topic="u")]) + "\n")
    second.write_text("\n".join([line(20, 2), line(40, 2, partition=2), '{"ts": 60, "torn']))
    (tmp_path / "broker-2" / "state-change.log.1").write_text(line(5, 2) + "\n")
    return [first, second]


def times(files: list[Path], wanted: Wanted) -> list[int]:
    return [found["ts"] for found in merge(files, wanted).lines]


def test_merged_by_time(logs: list[Path]) -> None:
    assert times(logs, Wanted()) == [10, 20, 30, 40, 50]
    assert merge(logs, Wanted()).unreadable == 1


def test_filters(logs: list[Path]) -> None:
    assert times(logs, Wanted(from_ms=20, to_ms=40)) == [20, 30, 40]
    assert times(logs, Wanted(topic="u")) == [50]
    assert times(logs, Wanted(topic="t", partitions=frozenset({1, 2}))) == [30, 40]


def test_files_of_a_data_directory(logs: list[Path], tmp_path: Path) -> None:
    assert times(files_of(tmp_path), Wanted()) == [5, 10, 20, 30, 40, 50]
    with pytest.raises(CommandError, match="no broker"):
        files_of(tmp_path / "broker-1")
    with pytest.raises(CommandError, match="cannot be read"):
        merge([tmp_path / "none"], Wanted())


def test_one_line_for_people() -> None:
    found = json.loads(line(1, 2, leader=1, leader_epoch=7, isr=[1, 2], replicas=[1, 2], error=11))
    assert sentence(found) == (
        "broker 2 received LeaderAndIsr from controller 1: t-0, leader 1 epoch 7, isr [1, 2], "
        "replicas [1, 2], controller epoch 3, ERROR 11"
    )
    stopped = json.loads(line(1, 2, leader_epoch=-2, delete=True))
    assert "log deleted" in sentence(stopped)
