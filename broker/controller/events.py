"""What happens to a controller."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from broker.controller.api import (
    DeletedTopicName,
    ElectionKind,
    NewPartitions,
    NewTopic,
    PartitionName,
)
from contracts.cluster import Command, CommandResponse, ControlledShutdownRequest


class Elected(NamedTuple):
    """This broker holds /controller and wrote this epoch; every write checks the node's version."""

    controller_epoch: int
    epoch_version: int


class Resigned(NamedTuple):
    """The session or the office is lost. What was begun may or may not have happened."""


class Changed(NamedTuple):
    """A watched node may have changed."""

    path: str


class Answered(NamedTuple):
    """A broker carried out a command, or says why not."""

    broker_id: int
    request: Command
    response: CommandResponse


class Tick(NamedTuple):
    """Time passed: about every second."""


class CreateTopics(NamedTuple):
    """Answer: list[CreatedTopic]."""

    call_id: int
    topics: Sequence[NewTopic]
    validate_only: bool


class DeleteTopics(NamedTuple):
    """Answer: list[DeletionOutcome], perhaps long after: when logs are gone."""

    call_id: int
    topics: Sequence[DeletedTopicName]


class CreatePartitions(NamedTuple):
    """Answer: list[Verdict]."""

    call_id: int
    topics: Sequence[NewPartitions]
    validate_only: bool


class ElectLeaders(NamedTuple):
    """Answer: dict[PartitionName, Verdict]."""

    call_id: int
    kind: ElectionKind
    partitions: Sequence[PartitionName] | None


class AlterReassignments(NamedTuple):
    """Answer: dict[PartitionName, Verdict]."""

    call_id: int
    targets: Mapping[PartitionName, tuple[int, ...] | None]


class ListReassignments(NamedTuple):
    """Answer: dict[PartitionName, Assignment]."""

    call_id: int
    partitions: Sequence[PartitionName] | None


class ControlledShutdown(NamedTuple):
    """Answer: ControlledShutdownResponse."""

    call_id: int
    request: ControlledShutdownRequest


Call: TypeAlias = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | ControlledShutdown
)
Event: TypeAlias = Elected | Resigned | Changed | Answered | Tick | Call
