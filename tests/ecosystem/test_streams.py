"""Kafka Streams: Apache's own smoke test of it, exactly once, whose processor is killed."""

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ctl.kafka.jars import DEFAULT_VERSION
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.java_process import JavaProcess
from tests.ecosystem.neighbour import beside
from tests.foreign.maven import KAFKA, SIMPLE_LOGGER, Artifact, class_path, library
from tests.integration.stack import Stack

_MAIN: Final = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_TOPICS: Final = (
    *("data", "fk", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg"),
)
_PARTITIONS: Final = 5
_RECORDS: Final = 20_000
"""What its driver writes: 20 keys with 1,000 numbers each."""
_KILLS: Final = 2
_JARS: Final = (
    Artifact(KAFKA, "kafka-streams"),
    Artifact(KAFKA, "kafka-streams", classifier="test"),
    Artifact(KAFKA, "kafka-clients", classifier="test"),
    Artifact(KAFKA, "kafka-server-common"),
    SIMPLE_LOGGER,
)


@pytest.mark.ecosystem
@pytest.mark.timeout(1200)
def test_streams_smoke_test(stack: Stack, tmp_path: Path) -> None:
    """The driver's own verdict on what is committed: all of it, nothing twice, no transaction left open."""
    path = class_path(library(f"{DEFAULT_VERSION}-streams", _JARS))
    bootstrap = stack.create_instance("streams")["bootstrap_servers"]
    beside_it = stack.create_instance("beside-streams")["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(one, _PARTITIONS) for one in _TOPICS]).values():
        made.result(30)
    settings = tmp_path / "streams.properties"
    settings.write_text(
        f"bootstrap.servers={bootstrap}\nprocessing.guarantee=exactly_once_v2\n"
        f"state.dir={tmp_path / 'state'}\nnum.stream.threads=2\ncommit.interval.ms=200\n"
        "replication.factor=-1\nsession.timeout.ms=10000\nheartbeat.interval.ms=1000\n"
    )
    processor = JavaProcess(path, (_MAIN, str(settings), "process"), tmp_path / "processor.log")
    driver = JavaProcess(path, (_MAIN, str(settings), "run"), tmp_path / "driver.log")
    with beside(beside_it, ("data", "echo"), "SmokeTest"), processor, driver:
        for life in range(1, _KILLS + 1):
            processor.until(
                f"life {life} processes",
                lambda life=life: processor.said().count("processed") > 20 * life,  # type: ignore[misc]
                120,
            )
            processor.kill()
            processor.start()
        code = driver.until_ended(900)
        said = driver.said()
    assert code == 0 and "SUCCESS" in said and "ALL-RECORDS-DELIVERED" in said, driver.end()
    assert "PROCESSED-MORE-THAN-GENERATED" not in said, driver.end()
    holds(
        Part.STREAMS,
        ran=f"Kafka Streams {DEFAULT_VERSION}, `StreamsSmokeTest`, `exactly_once_v2`",
        records=_RECORDS,
        killed=f"the processor, {_KILLS} times",
        held="its driver's verdict: every record in every result, nothing twice, no transaction left open",
    )
