"""state-change.log: what a merge tool reads."""

import json
from pathlib import Path
from uuid import UUID

from broker.cluster.state_change_log import FILE_NAME, FILES_KEPT, StateChangeLog
from contracts.cluster import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

ROLES = LeaderAndIsrRequest(
    controller_id=3,
    controller_epoch=2,
    broker_epoch=7,
    partition_states=tuple(
        LeaderAndIsrPartitionState(
            topic="t",
            topic_id=UUID(int=1),
            partition=partition,
            controller_epoch=2,
            leader=1,
            leader_epoch=4,
            isr=(1, 2),
            partition_epoch=9,
            replicas=(1, 2, 3),
        )
        for partition in (0, 1)
    ),
)
STOP = StopReplicaRequest(
    controller_id=3,
    controller_epoch=2,
    broker_epoch=7,
    partition_states=(
        StopReplicaPartitionState(
            topic="t", topic_id=UUID(int=1), partition=0, leader_epoch=5, delete_partition=True
        ),
    ),
)


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory / FILE_NAME).read_text().splitlines()]


def test_a_line_per_partition_and_command(tmp_path: Path) -> None:
    failures: list[OSError] = []
    log = StateChangeLog(tmp_path, 1, lambda: 1000, failures.append)
    log.sent(2, ROLES)
    error = PartitionError(topic="t", partition=1, error_code=56)
    log.received(ROLES, LeaderAndIsrResponse(partition_errors=(error,)))
    log.received(STOP, StopReplicaResponse(error_code=77))
    log.sent(2, UpdateMetadataRequest(controller_id=3, controller_epoch=2, broker_epoch=7))
    log.received(
        UpdateMetadataRequest(controller_id=3, controller_epoch=2, broker_epoch=7), UpdateMetadataResponse()
    )
    written = lines(tmp_path)
    assert written[0] == {
        "ts": 1000,
        "broker": 1,
        "event": "sent",
        "peer": 2,
        "request": "LeaderAndIsr",
        "controller_epoch": 2,
        "topic": "t",
        "partition": 0,
        "leader_epoch": 4,
        "leader": 1,
        "isr": [1, 2],
        "replicas": [1, 2, 3],
        "partition_epoch": 9,
        "is_new": False,
    }
    assert [(each["event"], each["partition"], each.get("error")) for each in written] == [
        ("sent", 0, None),
        ("sent", 1, None),
        ("received", 0, 0),
        ("received", 1, 56),
        ("received", 0, 77),
    ]
    assert written[-1]["delete"] is True
    assert written[-1]["peer"] == 3
    assert failures == []


def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = StateChangeLog(tmp_path, 1, lambda: 1, lambda error: None, size_bytes_max=100)
    for _ in range(FILES_KEPT + 3):
        log.sent(2, STOP)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"{FILE_NAME}.{number}" for number in range(1, FILES_KEPT + 1)]


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    failures: list[OSError] = []
    log = StateChangeLog(tmp_path / "missing", 1, lambda: 1, failures.append)
    log.sent(2, STOP)
    assert len(failures) == 1
