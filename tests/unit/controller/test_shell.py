"""The controller's shell over a tree in memory: office, sessions, calls, brokers that are slow to hear."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from broker.cluster import controller_channel as channel
from broker.cluster.controller import Controller
from broker.cluster.state_change_log import StateChangeLog
from broker.controller.api import DeletedTopicName, ElectionKind, NewTopic
from broker.controller.controller_config import ControllerConfig
from broker.metadata.znode_paths import CONTROLLER, PERSISTENT_PATHS, TOPICS, broker_path
from broker.metadata.znodes import Registration, encode_registration
from contracts.cluster import (
    Command,
    CommandResponse,
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from contracts.tree import Create, Delete
from runtime.kafka_client import KafkaUnavailable
from tests.memory_tree import MemoryEnsemble, MemoryTree
from tests.tree_conformance import eventually


class Member:
    """A broker's controller and what the broker itself is told."""

    def __init__(self, ensemble: MemoryEnsemble, broker_id: int, directory: Path) -> None:
        self.broker_id = broker_id
        self.tree: MemoryTree = ensemble.session()
        self.told: list[Command] = []
        self.is_reachable = True
        self.heard: list[int] = []
        directory.mkdir()
        self.controller = Controller(
            broker_id,
            ControllerConfig(default_replication_factor=1),
            self.tree,
            secret="secret",
            deliver=self.deliver,
            state_changes=StateChangeLog(directory, broker_id, lambda: 0, lambda error: None),
            controller_changed=self.heard.append,
        )

    async def start(self) -> None:
        await self.tree.start()
        await self.register()
        self.controller.start()

    async def register(self) -> None:
        data = encode_registration(Registration(host="127.0.0.1", port=9092))
        await self.tree.commit([Create(broker_path(self.broker_id), data, ephemeral=True)])

    async def deliver(self, command: Command) -> CommandResponse:
        await asyncio.sleep(0)
        if not self.is_reachable:
            raise KafkaUnavailable("not now")
        self.told.append(command)
        match command:
            case LeaderAndIsrRequest():
                return LeaderAndIsrResponse()
            case StopReplicaRequest():
                return StopReplicaResponse()
            case UpdateMetadataRequest():
                return UpdateMetadataResponse()

    async def aclose(self) -> None:
        await self.controller.aclose()
        await self.tree.aclose()


class Cluster:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ensemble = MemoryEnsemble()
        self.ensemble.commit(0, [Create(path) for path in PERSISTENT_PATHS])
        self.members = {
            broker_id: Member(self.ensemble, broker_id, directory / str(broker_id)) for broker_id in (1, 2)
        }
        members = self.members

        class Wire:
            """The network: carries commands to the other member."""

            def __init__(self, broker: object, secret: str, me: object, network: object) -> None:
                self._to = members[broker.broker_id]  # type: ignore[attr-defined]
                self.deliver = self._to.deliver

            def close(self) -> None:
                pass

        monkeypatch.setattr(channel, "RemoteBroker", Wire)

    async def start(self) -> tuple[Member, Member]:
        """Member 1 is the controller."""
        first, second = self.members[1], self.members[2]
        await first.start()
        await eventually(lambda: first.controller.is_active)
        await second.start()
        await eventually(lambda: any(command.broker_epoch for command in second.told))
        return first, second


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path, monkeypatch)
    yield cluster
    for member in cluster.members.values():
        await member.aclose()


def new(name: str, *, factor: int = 2) -> list[NewTopic]:
    return [NewTopic(name, uuid4(), 1, factor)]


async def _controller_of(*members: Member) -> Member:
    await eventually(lambda: sum(member.controller.is_active for member in members) == 1)
    return next(member for member in members if member.controller.is_active)


async def test_a_topic_exists_everywhere_when_its_creation_is_answered(cluster: Cluster) -> None:
    first, second = await cluster.start()
    created = await first.controller.create_topics(new("t"))
    assert created[0].verdict.error_code is ErrorCode.none
    for member in (first, second):
        assert any(state.topic == "t" for command in member.told for state in command.partition_states), (
            member.broker_id
        )
    deleted = await first.controller.delete_topics([DeletedTopicName("t")])
    assert deleted[0].verdict.error_code is ErrorCode.none
    assert cluster.ensemble.tree.children(TOPICS) == []


async def test_another_broker_is_asked(cluster: Cluster) -> None:
    first, second = await cluster.start()
    assert second.controller.controller_id == 1
    assert first.heard == second.heard[-1:] == [1]
    created = await second.controller.create_topics(new("t"))
    assert created[0].verdict.error_code is ErrorCode.not_controller
    verdict = await second.controller.elect_leaders(ElectionKind.PREFERRED, None)
    assert not isinstance(verdict, dict)
    assert verdict.error_code is ErrorCode.not_controller
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    answer = await second.controller.controlled_shutdown(request)
    assert answer.error_code == ErrorCode.not_controller.value


async def test_a_controller_that_leaves_is_followed(cluster: Cluster) -> None:
    first, second = await cluster.start()
    await first.controller.create_topics(new("t"))
    await first.controller.aclose()
    await eventually(lambda: second.controller.is_active)
    assert not first.controller.is_active
    assert max(command.controller_epoch for command in first.told) == 2


async def test_an_expired_session_ends_the_office(cluster: Cluster) -> None:
    first, second = await cluster.start()
    await first.controller.create_topics(new("t"))
    first.tree.expire()
    await first.register()
    await eventually(lambda: {2} <= {command.controller_epoch for command in (*first.told, *second.told)})
    leader = await _controller_of(first, second)
    await eventually(lambda: len(leader.controller.core.context.brokers) == 2)  # type: ignore[union-attr]
    created = await leader.controller.create_topics(new("u"))
    assert created[0].verdict.error_code is ErrorCode.none


async def test_a_lost_connection_ends_the_term_and_calls_are_answered(cluster: Cluster) -> None:
    """The outcome of a write is unknown, so everything is read anew, under the next epoch."""
    first, second = await cluster.start()
    first.tree.suspend()
    created = await first.controller.create_topics(new("t"))
    assert created[0].verdict.error_code is ErrorCode.not_controller
    first.tree.resume()
    leader = await _controller_of(first, second)
    created = await leader.controller.create_topics(new("t"))
    assert created[0].verdict.error_code is ErrorCode.none
    assert max(command.controller_epoch for command in second.told) == 2


async def test_an_operator_may_depose_the_controller(cluster: Cluster) -> None:
    first, second = await cluster.start()
    cluster.ensemble.commit(0, [Delete(CONTROLLER)])
    await eventually(
        lambda: (
            max((command.controller_epoch for command in second.told), default=0) == 2
            and first.controller.is_active != second.controller.is_active
        )
    )


async def test_a_broker_that_cannot_be_reached_delays_answers_a_little_and_hears_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.controller._OTHERS_TOLD_S", 0.05)
    first, second = await cluster.start()
    second.is_reachable = False
    del second.told[:]
    for number in range(20):
        created = await first.controller.create_topics(new(f"t{number}"))
        assert created[0].verdict.error_code is ErrorCode.none
    second.is_reachable = True
    await eventually(
        lambda: len({state.topic for command in second.told for state in command.partition_states}) == 20
    )
    assert len(second.told) <= 4


async def test_a_call_that_takes_too_long_is_answered(cluster: Cluster) -> None:
    first, _second = await cluster.start()
    first.is_reachable = False
    created = await first.controller.create_topics(new("t"), timeout_ms=100)
    assert created[0].verdict.error_code is ErrorCode.request_timed_out
    first.is_reachable = True
    await eventually(lambda: any(isinstance(command, LeaderAndIsrRequest) for command in first.told))
