"""Files of one tenant's log that are not what they were: an error for who reads there, a metric, and no word
of it for the other tenant."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker.process import ROOT, BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce, request
from wire.batch import HEADER_SIZE, iterate_batches, parse_header
from wire.codec import duration

MINE, OTHERS = "iaaaaaaaaaaa.t", "ibbbbbbbbbbb.t"
RECORDS = 300
ARGUMENTS = (
    *("--flush-interval-ms", "50", "--checkpoint-interval-ms", "100", "--retention-check-interval-ms", "200"),
)


def _fill(client: RawClient) -> None:
    for topic in (MINE, OTHERS):
        create_topic(client, topic, segment_bytes="16384", flush_ms="50")
        for number in range(RECORDS):
            assert produce(client, topic, batch(b"%5d" % number + b"x" * 130)).base_offset == number


def _log(broker: BrokerProcess, topic: str) -> Path:
    return broker.data_dir / "logs" / f"{topic}-0"


def _read_all(client: RawClient, topic: str, offset: int = 0) -> tuple[list[int], str, int]:
    """Base offsets that a consumer gets one after the other, the error that ends it, and where."""
    seen: list[int] = []
    while offset < RECORDS:
        answer = fetch(client, topic, offset)
        if answer.error_code.value:
            return seen, answer.error_code.name, offset
        headers = [header for _, header in iterate_batches(memoryview(bytes(answer.records)))]
        assert headers[0].base_offset == offset, "nothing is skipped"
        seen += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return seen, "", offset


def _delete_before(client: RawClient, topic: str, offset: int) -> None:
    partitions = [{"partition_index": 0, "offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    answer = client.call(request(21, 1, topics=topics, timeout=duration(5_000)))
    assert answer.topics[0].partitions[0].error_code.value == 0


def _eventually(holds: Any, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)


@pytest.mark.parametrize("clean", [True, False])
def test_a_closed_segment_that_was_cut_is_no_gap(tmp_path: Path, clean: bool) -> None:
    with running_broker(tmp_path, *ARGUMENTS) as broker:
        with RawClient(broker.port) as client:
            _fill(client)
        time.sleep(0.5)
        if clean:
            broker.stop()
        else:
            broker.kill()
        second = sorted(_log(broker, MINE).glob("*.log"))[1]
        third = int(sorted(_log(broker, MINE).glob("*.log"))[2].name[:20])
        with second.open("r+b") as file:
            file.truncate(second.stat().st_size - 1_000)
        broker.start()
        metrics = broker.metrics()
        assert metrics["portico_broker_damaged_logs"] == 1
        assert 1 <= metrics["portico_broker_damaged_offsets"] < 20
        with RawClient(broker.port) as client:
            seen, error, at = _read_all(client, MINE)
            assert (seen, error) == (list(range(at)), "corrupt_message")
            assert at == third - metrics["portico_broker_damaged_offsets"]
            assert _read_all(client, MINE, third) == (list(range(third, RECORDS)), "", RECORDS)
            assert _read_all(client, OTHERS)[0] == list(range(RECORDS))
            assert produce(client, MINE, batch(b"goes on")).base_offset == RECORDS
            _delete_before(client, MINE, third)  # the way on: what is lost is given up
            assert _read_all(client, MINE, third)[1] == ""
        assert broker.metrics()["portico_broker_damaged_logs"] == 0
        assert "records of a log are lost or damaged" in broker.log()


def test_a_segment_that_is_cut_under_a_running_broker_is_found_by_who_reads_it(tmp_path: Path) -> None:
    with running_broker(tmp_path, *ARGUMENTS) as broker, RawClient(broker.port) as client:
        _fill(client)
        second, third = (int(path.name[:20]) for path in sorted(_log(broker, MINE).glob("*.log"))[1:3])
        with (_log(broker, MINE) / f"{second:020d}.log").open("r+b") as file:
            file.truncate(file.seek(0, 2) - 1_000)
        seen, error, at = _read_all(client, MINE)
        assert (seen, error) == (list(range(at)), "corrupt_message")
        assert second < at < third
        metrics = broker.metrics()
        assert metrics["portico_broker_damaged_logs"] == 1
        assert metrics["portico_broker_damaged_offsets"] == third - at
        assert _read_all(client, MINE, third) == (list(range(third, RECORDS)), "", RECORDS)
        assert _read_all(client, OTHERS)[0] == list(range(RECORDS)), "on the same connection, too"
        _eventually(lambda: '"kind": "short"' in broker.log())


def test_a_scrub_beside_the_running_broker_finds_a_flipped_bit(tmp_path: Path) -> None:
    with running_broker(tmp_path, *ARGUMENTS) as broker, RawClient(broker.port) as client:
        _fill(client)
        time.sleep(0.5)
        segment = sorted(_log(broker, MINE).glob("*.log"))[1]
        header = parse_header(segment.read_bytes())
        with segment.open("r+b") as file:
            file.seek(HEADER_SIZE + 30)
            file.write(b"\xee")
        scrub = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "runtime.start",
                    "ctl.main",
                    "log",
                    "scrub",
                    str(broker.data_dir / "logs"),
                ),
                *("--rate", "50MB/s"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert scrub.returncode == 1
        offset = header.base_offset
        assert scrub.stdout.splitlines()[0].endswith(f"offsets {offset} to {offset} (content)"), scrub.stdout
        _eventually(lambda: broker.metrics()["portico_broker_damaged_logs"] == 1)
        assert _read_all(client, MINE) == (list(range(offset)), "corrupt_message", offset)
        assert _read_all(client, MINE, offset + 1)[0] == list(range(offset + 1, RECORDS))
        assert _read_all(client, OTHERS)[0] == list(range(RECORDS))
        broker.kill()
        broker.start()
        with RawClient(broker.port) as again:
            assert _read_all(again, MINE)[1:] == ("corrupt_message", offset), "a restart does not forget it"


def test_a_repaired_end_that_was_acknowledged_is_told_as_lost(tmp_path: Path) -> None:
    with running_broker(tmp_path, *ARGUMENTS) as broker:
        with RawClient(broker.port) as client:
            _fill(client)
        time.sleep(0.5)
        broker.stop()
        newest = sorted(_log(broker, MINE).glob("*.log"))[-1]
        with newest.open("r+b") as file:
            file.truncate(newest.stat().st_size - 300)
        broker.start()
        assert broker.metrics()["portico_broker_damaged_logs"] == 1
        assert '"kind": "end"' in broker.log()
        with RawClient(broker.port) as client:
            end = fetch(client, MINE, 0).high_watermark
            assert end < RECORDS
            assert produce(client, MINE, batch(b"instead")).base_offset == end
