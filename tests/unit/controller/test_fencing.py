"""A broker obeys the newest controller only, in its own present life only, and forgets nothing for others."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from contracts.cluster import (
    EPOCH_DURING_DELETE,
    Command,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LiveBroker,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tests.unit.controller.brokers import PureBroker

KEY = ("t", 0)
EPOCH = 40
OTHERS = (LiveBroker(broker_id=1, host="h", port=1, broker_epoch=EPOCH),)


def _lead(controller_epoch: int, broker_epoch: int = EPOCH, leader_epoch: int = 5) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        topic="t",
        topic_id=UUID(int=1),
        partition=0,
        controller_epoch=controller_epoch,
        leader=1,
        leader_epoch=leader_epoch,
        isr=(1,),
        partition_epoch=leader_epoch,
        replicas=(1,),
        is_new=True,
    )
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        partition_states=(state,),
        live_brokers=OTHERS,
    )


def _stop(
    controller_epoch: int, broker_epoch: int = EPOCH, leader_epoch: int = EPOCH_DURING_DELETE
) -> StopReplicaRequest:
    state = StopReplicaPartitionState(
        topic="t", topic_id=UUID(int=1), partition=0, leader_epoch=leader_epoch, delete_partition=True
    )
    return StopReplicaRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        partition_states=(state,),
    )


def _tell(controller_epoch: int, broker_epoch: int = EPOCH) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        live_brokers=(),
        is_full=True,
    )


def _name(command: Command) -> str:
    return type(command).__name__


@pytest.fixture
def broker() -> PureBroker:
    """It leads t-0, as the controller of epoch 7 said."""
    broker = PureBroker(1)
    broker.session = 1
    broker.registered(EPOCH)
    assert broker.carry_out(_lead(controller_epoch=7)).error_code == 0
    assert broker.roles[KEY].leader_epoch == 5
    return broker


@pytest.mark.parametrize("command", [_lead(6, leader_epoch=9), _stop(6), _tell(6)], ids=_name)
def test_a_deposed_controller_is_refused(broker: PureBroker, command: Command) -> None:
    assert broker.carry_out(command).error_code == ErrorCode.stale_controller_epoch.value
    assert broker.roles[KEY].leader_epoch == 5 and KEY in broker.logs


@pytest.mark.parametrize("heard", [_lead(8), _stop(8, leader_epoch=4), _tell(8)], ids=_name)
def test_whatever_a_new_controller_says_first_deposes_the_old_one(broker: PureBroker, heard: Command) -> None:
    assert broker.carry_out(heard).error_code == 0
    assert broker.carry_out(_stop(7)).error_code == ErrorCode.stale_controller_epoch.value
    assert KEY in broker.logs


@pytest.mark.parametrize(
    "command", [_lead(7, EPOCH - 1, leader_epoch=9), _stop(7, EPOCH - 1), _tell(7, EPOCH - 1)], ids=_name
)
def test_what_was_meant_for_an_earlier_life_is_refused(broker: PureBroker, command: Command) -> None:
    """KIP-380."""
    assert broker.carry_out(command).error_code == ErrorCode.stale_broker_epoch.value
    assert broker.roles[KEY].leader_epoch == 5 and KEY in broker.logs


def test_a_replica_of_a_newer_leader_epoch_is_not_stopped(broker: PureBroker) -> None:
    response = broker.carry_out(_stop(7, leader_epoch=4))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.fenced_leader_epoch.value]
    assert KEY in broker.roles and KEY in broker.logs
    assert broker.carry_out(_stop(7, leader_epoch=5)).partition_errors == ()
    assert KEY not in broker.roles and KEY not in broker.logs
