"""Controlled shutdown: a broker that wants to stop first gives its leaders away (KIP-49's predecessor)."""

from kio.schema.errors import ErrorCode

from broker.controller.api import PartitionName
from broker.controller.context import ControllerContext, PartitionRecord
from broker.controller.effects import Answer, Cause, Steps, note
from broker.controller.elections import Choice, elect_for_shutdown
from broker.controller.events import ControlledShutdown
from broker.controller.states import change_states
from contracts.cluster import (
    UNKNOWN_BROKER_EPOCH,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    TopicPartition,
)


def on_controlled_shutdown(context: ControllerContext, call: ControlledShutdown) -> Steps[Answer]:
    """Elect others, and take the broker out of every ISR that has another member. Raises: Deposed.

    What remains is led by it because nobody else is in sync; partitions with one replica do not count.
    """
    request = call.request
    fault = _fault(context, request)
    if fault is not ErrorCode.none:
        return Answer(call.call_id, ControlledShutdownResponse(error_code=fault.value))
    context.shutting_down.add(request.broker_id)
    context.pending.brokers_changed = True  # leaders must not take it back into an ISR
    names = [
        name
        for name in context.with_replica_on((request.broker_id,))
        if len(context.topics[name[0]].partitions[name[1]].assignment.replicas) > 1
    ]
    yield from leave_isrs(context, names, request.broker_id)
    remaining = tuple(
        TopicPartition(topic=name[0], partition=name[1])
        for name in names
        if (record := context.partition(name)) is not None
        and record.state is not None
        and record.state.leader == request.broker_id
    )
    yield note(Cause.CONTROLLED_SHUTDOWN, broker=request.broker_id, remaining=len(remaining))
    return Answer(call.call_id, ControlledShutdownResponse(remaining_partitions=remaining))


def _fault(context: ControllerContext, request: ControlledShutdownRequest) -> ErrorCode:
    known = context.brokers.get(request.broker_id)
    if known is None:
        return ErrorCode.broker_not_available
    if request.broker_epoch not in (known.live.broker_epoch, UNKNOWN_BROKER_EPOCH):
        return ErrorCode.stale_broker_epoch
    return ErrorCode.none


def leave_isrs(context: ControllerContext, names: list[PartitionName], broker_id: int) -> Steps[None]:
    """Lead these partitions elsewhere, and without the broker in their ISR, where there is another member.

    Raises: Deposed.
    """

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        state = record.state
        if state is None or (broker_id not in state.isr and state.leader != broker_id):
            return None
        isr = tuple(each for each in state.isr if each != broker_id)
        if not isr:
            return None
        if state.leader != broker_id:
            return Choice(state.leader, isr)
        return elect_for_shutdown(
            record.assignment.replicas,
            state.isr,
            lambda each: context.is_eligible(each, name),
            tuple(context.shutting_down),
        )

    written = yield from change_states(context, names, decide)
    for name in written:
        record = context.partition(name)
        assert record is not None and record.state is not None, "what was just written is known"
        context.tell(name, to=context.active_replicas(name, record))
