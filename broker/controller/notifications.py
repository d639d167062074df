"""What brokers say through the tree: ISRs that leaders changed, log directories that failed."""

from kio.schema.errors import ErrorCode

from broker.controller.api import PartitionName
from broker.controller.context import ControllerContext
from broker.controller.effects import Cause, Steps, children, note, read
from broker.controller.leadership import settle
from broker.controller.reassignment import advance
from broker.controller.shutdown import leave_isrs
from broker.controller.states import Group, commit_groups, refresh_states
from broker.metadata.znode_paths import ISR_CHANGES, LOG_DIR_EVENTS
from broker.metadata.znodes import ZnodeDamaged, decode_log_dir_event, decode_partitions
from contracts.cluster import LeaderAndIsrRequest, LeaderAndIsrResponse
from contracts.tree import Delete

_NO_STORAGE = ErrorCode.kafka_storage_error.value


def on_isr_changes(context: ControllerContext) -> Steps[None]:
    """Leaders changed ISRs: read them, tell everyone, go on with reassignments. Raises: Deposed."""
    names = yield from children(ISR_CHANGES)
    paths = [f"{ISR_CHANGES}/{name}" for name in names]
    changed: dict[PartitionName, None] = {}
    for path, node in zip(paths, (yield from read(paths)), strict=True):
        try:
            changed |= dict.fromkeys(sorted(decode_partitions(node.data)) if node is not None else ())
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=path, reason=str(error))
    yield from on_states_changed(context, list(changed))
    yield from commit_groups(context, [Group(path, [Delete(path)]) for path in paths])


def on_states_changed(context: ControllerContext, names: list[PartitionName]) -> Steps[None]:
    """State nodes may have changed. Raises: Deposed."""
    versions = {name: record.version for name in names if (record := context.partition(name)) is not None}
    changed = [
        name
        for name in (yield from refresh_states(context, list(versions)))
        if context.topics[name[0]].partitions[name[1]].version != versions[name]
    ]
    context.pending.metadata.update(dict.fromkeys(changed))
    yield from _expel_leaving(context, changed)
    yield from advance(context, changed)


def _expel_leaving(context: ControllerContext, changed: list[PartitionName]) -> Steps[None]:
    """A leader that had not heard yet may have taken back a broker that is gone or about to go."""
    members = {name: _isr(context, name) for name in changed}
    dead = [name for name in changed if not all(context.is_alive(each, name) for each in members[name])]
    yield from settle(context, dead)
    for broker_id in sorted(context.shutting_down):
        yield from leave_isrs(context, [name for name in changed if broker_id in members[name]], broker_id)


def _isr(context: ControllerContext, name: PartitionName) -> tuple[int, ...]:
    record = context.partition(name)
    return () if record is None or record.state is None else record.state.isr


def on_log_dir_events(context: ControllerContext) -> Steps[None]:
    """Directories failed: the brokers are asked about every replica they have, and answer which are lost.

    Raises: Deposed.
    """
    names = yield from children(LOG_DIR_EVENTS)
    paths = [f"{LOG_DIR_EVENTS}/{name}" for name in names]
    for path, node in zip(paths, (yield from read(paths)), strict=True):
        if node is None:
            continue
        try:
            broker_id = decode_log_dir_event(node.data)
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=path, reason=str(error))
            continue
        if broker_id in context.brokers:
            context.pending.full_leader_and_isr.add(broker_id)
    yield from commit_groups(context, [Group(path, [Delete(path)]) for path in paths])


def on_replicas_told(
    context: ControllerContext, broker_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Steps[None]:
    """A broker's answer to LeaderAndIsr: replicas in a failed directory are offline. Raises: Deposed."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        yield note(Cause.COMMAND_REFUSED, broker=broker_id, error=code.name, request="LeaderAndIsr")
        return
    lost = {
        (each.topic, each.partition) for each in response.partition_errors if each.error_code == _NO_STORAGE
    }
    told = {(each.topic, each.partition) for each in request.partition_states}
    failed = context.failed_replicas.setdefault(broker_id, set())
    recovered, newly = (failed & told) - lost, lost - failed
    failed -= recovered
    failed |= newly
    if newly:
        yield note(Cause.LOG_DIRECTORY_FAILED, broker=broker_id, partitions=len(newly))
    context.pending.metadata.update(dict.fromkeys(sorted(recovered | newly)))
    yield from settle(context, sorted(recovered | newly))
