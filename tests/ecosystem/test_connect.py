"""Kafka Connect, distributed, with a source that writes exactly once, whose workers are killed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.kafka.jars import DEFAULT_VERSION
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.connect import Worker
from tests.ecosystem.neighbour import beside
from tests.ecosystem.reading import Reader
from tests.integration.stack import Stack

_LINES: Final = 20_000
_LINES_PER_S: Final = 200
_KILLS: Final = 2
_CONNECTOR: Final = "lines"


@contextmanager
def _growing(path: Path) -> Iterator[threading.Event]:
    """Numbered lines are appended to a file; from the event on, all that are left at once."""
    hurry = threading.Event()

    def append() -> None:
        with path.open("a", buffering=1) as file:
            for number in range(_LINES):
                file.write(f"{number}\n")
                hurry.wait(1 / _LINES_PER_S)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield hurry
    finally:
        hurry.set()
        thread.join()


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_exactly_once_source(stack: Stack, tmp_path: Path) -> None:
    """Each line of a growing file is in the topic once and in order, though its worker is killed."""
    bootstrap = stack.create_instance("connect")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-connect")["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("lines", 1)])["lines"].result(30)
    source = tmp_path / "lines.txt"
    source.touch()
    workers = {worker.address: worker for worker in (Worker(bootstrap, tmp_path, name) for name in "ab")}
    first, second = workers.values()
    with (
        beside(beside_it, ("lines", "connect-offsets"), "connect"),
        Reader(bootstrap, "lines") as reader,
        first,
        second,
        _growing(source) as hurry,
    ):
        for worker in workers.values():
            worker.until_serving()
        first.put(
            _CONNECTOR,
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(source),
                "topic": "lines",
                # When a batch is full, what it has read beyond stays with it until the file grows again.
                "batch.size": str(_LINES + 1),
                "exactly.once.support": "required",
                "transaction.boundary": "poll",
            },
        )
        where = first.until_running(_CONNECTOR)
        for _ in range(_KILLS):
            before = len(reader.read)
            reader.until(lambda read, before=before: len(read) >= before + 100, 120)  # type: ignore[misc]
            workers[where].kill()
            (left,) = (one for address, one in workers.items() if address != where)
            killed, where = where, left.until_running(_CONNECTOR, not_at=where)
            workers[killed].start()
            workers[killed].until_serving()
        hurry.set()
        reader.until(lambda read: len(read) >= _LINES, 180)
        reader.to_the_end()
    assert [value for _, value in reader.read] == [str(number).encode() for number in range(_LINES)]
    holds(
        Part.CONNECT,
        ran=f"Connect {DEFAULT_VERSION} distributed, an exactly-once `FileStreamSource`",
        records=_LINES,
        killed=f"the worker of the task, {_KILLS} times",
        held="each line once and in order",
    )
