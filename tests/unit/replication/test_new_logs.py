"""Files of new partitions: made on a thread, taken over by the loop; what is not taken is undone."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.cluster.commands import CommandReceiver
from broker.metadata.metadata_cache import MetadataCache
from broker.replication.replicas import Replicas
from broker.replicator.manager import ReplicaManager
from broker.storage.manager import LogManager
from contracts.cluster import (
    CommandResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from tests.unit.broker_log.builders import SMALL
from tests.unit.replication.steps import carried_out

ME: Final = 1
_PARTITIONS: Final = 25
_TOPIC_ID: Final = UUID(int=7)


class Broker:
    """A replica manager over two log directories."""

    def __init__(self, directory: Path) -> None:
        self.paths = [directory / "a", directory / "b"]
        self.logs = LogManager(self.paths, cluster_id="test", node_id=ME)
        self.logs.load(lambda _: SMALL, 1)
        self.metadata = MetadataCache()
        self.manager = ReplicaManager(
            Replicas(ME, self.metadata, 30_000),
            self.logs,
            configs_of=self.metadata.configs,
            log_config=lambda *_: SMALL,
            now_ms=lambda: 0,
            epoch_ms=lambda: 1,
        )

    def directories(self) -> list[str]:
        return sorted(path.name for parent in self.paths for path in parent.iterdir() if path.is_dir())


def roles(first: int = 0, count: int = _PARTITIONS) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=ME,
        controller_epoch=1,
        broker_epoch=0,
        partition_states=tuple(
            LeaderAndIsrPartitionState(
                topic="t",
                topic_id=_TOPIC_ID,
                partition=index,
                controller_epoch=1,
                leader=ME,
                leader_epoch=0,
                isr=(ME,),
                partition_epoch=0,
                replicas=(ME,),
                is_new=True,
            )
            for index in range(first, first + count)
        ),
        live_brokers=(),
    )


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def test_the_loop_makes_no_files_and_waits_for_none(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[threading.Thread] = []
    mkdir, open_ = os.mkdir, os.open

    def noted_mkdir(*arguments: Any, **named: Any) -> None:
        makers.append(threading.current_thread())
        mkdir(*arguments, **named)

    def noted_open(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT and not Path(path).exists():
            makers.append(threading.current_thread())
        return open_(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "mkdir", noted_mkdir)
    monkeypatch.setattr(os, "open", noted_open)
    loop = asyncio.get_running_loop()
    commands = CommandReceiver(
        loop,
        SimpleNamespace(last_epoch=0),  # type: ignore[arg-type]
        broker.metadata,
        broker.manager,
        SimpleNamespace(received=lambda *_: None),  # type: ignore[arg-type]
    )
    answers: list[CommandResponse] = []
    commands.receive(roles(), answers.append)
    commands.receive(roles(_PARTITIONS, 1), answers.append)
    while len(answers) < 2:
        await asyncio.sleep(0.001)
    assert [answer.error_code for answer in answers] == [0, 0]
    assert len(broker.logs.logs) == _PARTITIONS + 1
    assert len(makers) == 3 * (_PARTITIONS + 1)
    assert threading.main_thread() not in makers


def test_new_partitions_spread_over_directories(broker: Broker) -> None:
    assert carried_out(broker.manager.leader_and_isr(roles(count=20))).error_code == 0
    assert [sum(child.is_dir() for child in path.iterdir()) for path in broker.paths] == [10, 10]


def test_what_is_here_already_is_no_work_for_a_thread(broker: Broker) -> None:
    carried_out(broker.manager.leader_and_isr(roles(count=10)))
    assert list(broker.manager.leader_and_isr(roles(count=10))) == []


def test_one_that_cannot_be_made_is_refused_alone(broker: Broker) -> None:
    for path in broker.paths:
        (path / "t-3").mkdir()
    response = carried_out(broker.manager.leader_and_isr(roles(count=10)))
    assert [(error.partition, error.error_code) for error in response.partition_errors] == [
        (3, ErrorCode.kafka_storage_error.value)
    ]
    assert len(broker.logs.logs) == 9


def test_a_disk_that_fails_meanwhile_leaves_all_to_the_other(broker: Broker) -> None:
    steps = broker.manager.leader_and_isr(roles(count=10))
    job = next(steps)
    assert job is not None
    job.run()
    key = next(key for key, new in job.made.items() if new.directory.path == broker.paths[0])
    job.errors[key] = OSError(errno.EIO, os.strerror(errno.EIO))
    response = carried_out(steps)
    assert response.partition_errors == ()
    assert {log.directory.parent for key_, log in broker.logs.logs.items() if key_ >= key} == {
        broker.paths[1]
    }


def test_without_descriptors_files_are_made_as_they_are_opened(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = broker.manager.leader_and_isr(roles(count=3))
    job = next(steps)
    assert job is not None
    with monkeypatch.context() as short:

        def refuse(*_arguments: Any, **_named: Any) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        short.setattr(os, "open", refuse)
        job.run()
    assert broker.directories() == []
    assert carried_out(steps).partition_errors == ()
    assert broker.directories() == ["t-0", "t-1", "t-2"]


def test_what_nobody_takes_is_undone(broker: Broker) -> None:
    steps = broker.manager.leader_and_isr(roles(count=2))
    job = next(steps)
    assert job is not None
    job.run()
    broker.logs.offline["t", 1] = "its directory has failed"
    response = carried_out(steps)
    assert [error.partition for error in response.partition_errors] == [1]
    assert broker.directories() == ["t-0"]


def test_clients_are_served_after_each_directory_that_goes(broker: Broker) -> None:
    carried_out(broker.manager.leader_and_isr(roles(count=3)))
    stop = StopReplicaRequest(
        controller_id=ME,
        controller_epoch=1,
        broker_epoch=0,
        partition_states=tuple(
            StopReplicaPartitionState(
                topic="t", topic_id=_TOPIC_ID, partition=index, leader_epoch=1, delete_partition=True
            )
            for index in range(3)
        ),
    )
    left = []
    steps = broker.manager.stop_replica(stop)
    for _ in steps:
        left.append(len(broker.logs.logs))
    assert left == [2, 1, 0]
