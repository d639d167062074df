"""Moving partitions to other brokers (seed 001: partition reassignment; KIP-455).

OAR are the replicas a partition had, RAR those it shall have. The topic's node holds where a reassignment
stands, so any controller can go on from what it reads:

1. node: replicas OAR + RAR, adding RAR - OAR, removing OAR - RAR; a new leader epoch; all are told
2. (replicas that are added fetch, and the leader takes them into the ISR)
3. when RAR is in the ISR: a leader from RAR, if the leader is not one
4. the ISR loses OAR - RAR, whose brokers are told to delete their logs
5. when those that live have: node: replicas RAR; the partition leaves /admin/reassign_partitions
"""

from collections.abc import Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from broker.controller.api import OK, PartitionName, Verdict
from broker.controller.context import ControllerContext, Log, PartitionRecord, target_of
from broker.controller.effects import Answer, Cause, Steps, Unwatch, Watch, WatchKind, note, read_one
from broker.controller.elections import Choice, elect_from
from broker.controller.events import AlterReassignments, ListReassignments
from broker.controller.leftovers import leave_behind
from broker.controller.states import Group, change_states, commit_groups
from broker.controller.topics import write_assignments
from broker.metadata.znode_paths import REASSIGN_PARTITIONS, state_path
from broker.metadata.znodes import (
    Assignment,
    ZnodeDamaged,
    decode_reassignment,
    encode_reassignment,
)
from contracts.cluster import NO_LEADER
from contracts.tree import Delete, SetData, TreeConflict

_WOULD_BE_UNCLEAN = Verdict(
    ErrorCode.invalid_replica_assignment,
    "Unable to revert partition assignment because it would require an unclean leader election.",
)
_TOPIC_GONE = Verdict(ErrorCode.unknown_topic_or_partition, "The topic was removed from the tree.")


def origin_of(assignment: Assignment) -> tuple[int, ...]:
    """OAR."""
    return tuple(each for each in assignment.replicas if each not in assignment.adding_replicas)


def reassigned_to(assignment: Assignment, target: Sequence[int]) -> Assignment:
    """The assignment while `target` is being reached; one under way is turned to the new target."""
    origin = origin_of(assignment)
    return Assignment(
        tuple(dict.fromkeys((*target, *origin))),
        tuple(each for each in target if each not in origin),
        tuple(each for each in origin if each not in target),
    )


def is_done(assignment: Assignment) -> bool:
    """Whether nothing is being moved."""
    return not assignment.adding_replicas and not assignment.removing_replicas


# -- asking ----------------------------------------------------------------------------------------------


def on_alter_reassignments(context: ControllerContext, call: AlterReassignments) -> Steps[Answer]:
    """Begin or cancel. Raises: Deposed."""
    verdicts: dict[PartitionName, Verdict] = {}
    accepted: dict[PartitionName, tuple[int, ...]] = {}
    for name, target in call.targets.items():
        fault = _fault(context, name, target)
        if fault is not None:
            verdicts[name] = fault
            continue
        record = context.partition(name)
        assert record is not None, "checked above"
        accepted[name] = origin_of(record.assignment) if target is None else target
        if target is None:
            yield note(Cause.REASSIGNMENT_CANCELLED, topic=name[0], partition=name[1])
    verdicts |= yield from begin(context, accepted)
    return Answer(call.call_id, {name: verdicts[name] for name in call.targets})


def _fault(context: ControllerContext, name: PartitionName, target: Sequence[int] | None) -> Verdict | None:
    record = context.partition(name)
    if record is None:
        return Verdict(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    if target is None:
        if is_done(record.assignment):
            return Verdict(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
        target = origin_of(record.assignment)
        is_safe = _keeps_a_member_in_sync(context, name, record, target)
        return None if is_safe else _WOULD_BE_UNCLEAN
    offline = [each for each in target if each not in context.brokers]
    if not target:
        fault = "Replica assignment has an empty replica list."
    elif len(set(target)) != len(target):
        fault = "Replica assignment has duplicate replicas."
    elif any(each < 0 for each in target):
        fault = "Replica assignment has an invalid broker id."
    elif any(each not in record.assignment.replicas for each in offline):
        fault = f"Replica assignment has brokers that are not alive: {offline}."
    elif not _keeps_a_member_in_sync(
        context, name, record, reassigned_to(record.assignment, target).replicas
    ):
        fault = "The replicas that would remain are not in sync: wait, or reassign to others."
    else:
        return None
    return Verdict(ErrorCode.invalid_replica_assignment, fault)


def _keeps_a_member_in_sync(
    context: ControllerContext, name: PartitionName, record: PartitionRecord, replicas: Sequence[int]
) -> bool:
    """Turning a reassignment round drops the replicas it was adding: one in sync has to remain."""
    state = record.state
    if state is None or set(record.assignment.replicas) <= set(replicas):
        return True
    return elect_from(replicas, state.isr, lambda each: context.is_alive(each, name)) is not None


def list_reassignments(context: ControllerContext, call: ListReassignments) -> Answer:
    """What is in progress."""
    names = context.reassigning if call.partitions is None else call.partitions
    listed = {
        name: record.assignment
        for name in names
        if name in context.reassigning and (record := context.partition(name)) is not None
    }
    return Answer(call.call_id, listed)


def on_reassignment_node(context: ControllerContext) -> Steps[None]:
    """/admin/reassign_partitions was written by a tool. Raises: Deposed."""
    node = yield from read_one(REASSIGN_PARTITIONS)
    if node is None:
        return
    try:
        targets = decode_reassignment(node.data)
    except ZnodeDamaged as error:
        yield note(Cause.NODE_DAMAGED, path=REASSIGN_PARTITIONS, reason=str(error))
        group = Group("node", [Delete(REASSIGN_PARTITIONS, node.stat.version)])
        yield from commit_groups(context, [group])
        return
    accepted = {}
    for name, target in targets.items():
        record = context.partition(name)
        if record is not None and not is_done(record.assignment) and target_of(record.assignment) == target:
            continue  # under way
        fault = _fault(context, name, target)
        if fault is None:
            accepted[name] = target
        else:
            yield note(Cause.REASSIGNMENT_REFUSED, topic=name[0], partition=name[1], reason=fault.message)
    yield from begin(context, accepted)
    yield from _strike_off(context)


# -- doing -----------------------------------------------------------------------------------------------


def begin(
    context: ControllerContext, targets: Mapping[PartitionName, tuple[int, ...]]
) -> Steps[dict[PartitionName, Verdict]]:
    """Step 1 for each partition, then whatever can be done at once. Raises: Deposed."""
    verdicts = dict.fromkeys(targets, OK)
    after = {
        name: reassigned_to(context.topics[name[0]].partitions[name[1]].assignment, target)
        for name, target in targets.items()
    }
    dropped, refused = yield from _drop(context, after)
    for name in refused:
        verdicts[name] = _WOULD_BE_UNCLEAN
        del after[name]
    yield from _leave_logs(context, {name: each for name, each in dropped.items() if name in after})
    begun: list[PartitionName] = []
    for topic_name in dict.fromkeys(name[0] for name in after):
        topic = context.topics[topic_name]
        changed = {
            index: each
            for (name, index), each in after.items()
            if name == topic_name and each != topic.partitions[index].assignment
        }
        is_written = yield from write_assignments(context, topic, changed)
        for index in changed:
            verdicts[topic_name, index] = OK if is_written else _TOPIC_GONE
        begun += [(topic_name, index) for index in changed if is_written]
    for name in begun:
        context.removals.pop(name, None)
        if not is_done(context.topics[name[0]].partitions[name[1]].assignment):
            context.reassigning.add(name)
            yield Watch(WatchKind.DATA, state_path(*name))
        yield note(Cause.REASSIGNMENT_STARTED, topic=name[0], partition=name[1])
    for name in begun:
        _stop_replicas(context, name, dropped.get(name, ()))
    yield from _raise_epochs(context, begun)
    yield from advance(context, begun)
    return verdicts


def _drop(
    context: ControllerContext, after: Mapping[PartitionName, Assignment]
) -> Steps[tuple[dict[PartitionName, list[int]], set[PartitionName]]]:
    """Replicas that a new target leaves out at once leave the ISR first.

    Returns them, and the partitions whose ISR would have nobody else.
    """
    dropped: dict[PartitionName, list[int]] = {}
    for name, assignment in after.items():
        before = context.topics[name[0]].partitions[name[1]].assignment
        brokers = [each for each in before.replicas if each not in assignment.replicas]
        if brokers:
            dropped[name] = brokers
    yield from _leave_isr(context, dropped)
    refused = set()
    for name, brokers in dropped.items():
        record = context.partition(name)
        state = None if record is None else record.state
        if state is not None and not set(brokers).isdisjoint(state.isr):
            refused.add(name)
    return dropped, refused


def resume_reassignments(context: ControllerContext) -> Steps[None]:
    """A new controller goes on with what it found. The epochs rise again, since nobody knows who has been
    told of the assignment. Raises: Deposed."""
    for name in sorted(context.reassigning):
        yield Watch(WatchKind.DATA, state_path(*name))
    yield from _raise_epochs(context, sorted(context.reassigning), new=False)
    yield from advance(context, context.reassigning)
    yield from on_reassignment_node(context)


def _raise_epochs(
    context: ControllerContext, names: Iterable[PartitionName], *, new: bool = True
) -> Steps[None]:
    """A new leader epoch with the same leader and ISR: so that replicas take over the new assignment."""

    def decide(_: PartitionName, record: PartitionRecord) -> Choice | None:
        return None if record.state is None else Choice(record.state.leader, record.state.isr)

    for name in (yield from change_states(context, names, decide)):
        assignment = context.topics[name[0]].partitions[name[1]].assignment
        context.tell(name, to=assignment.replicas, new=assignment.adding_replicas if new else ())


def advance(context: ControllerContext, names: Iterable[PartitionName]) -> Steps[None]:
    """Steps 3 to 5 for those of the partitions whose targets are in the ISR. Raises: Deposed."""
    waiting = [name for name in sorted(names) if name in context.reassigning - context.removals.keys()]
    led = yield from _lead_from_target(context, waiting)
    yield from _remove(context, led)
    yield from finish_removals(context)


def _lead_from_target(
    context: ControllerContext, names: Iterable[PartitionName]
) -> Steps[list[PartitionName]]:
    """Step 3. Returns the partitions whose targets are in the ISR and that have a leader from them."""
    led: set[PartitionName] = set()

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        target, state = target_of(record.assignment), record.state
        led.discard(name)
        if state is None or not set(target) <= set(state.isr):
            return None
        if state.leader in target and context.is_alive(state.leader, name):
            led.add(name)
            return None
        leader = elect_from(target, state.isr, lambda each: context.is_eligible(each, name))
        return None if leader is None else Choice(leader, state.isr)

    written = yield from change_states(context, names, decide)
    return sorted(led | written.keys())


def _remove(context: ControllerContext, names: Iterable[PartitionName]) -> Steps[None]:
    """Step 4: from now on only the targets play the partition. Their leader epoch rises in any case, so that
    the leader learns not to take the others back."""
    removed = {
        name: context.topics[name[0]].partitions[name[1]].assignment.removing_replicas for name in names
    }
    yield from _leave_isr(context, removed)
    for name, brokers in removed.items():
        record = context.partition(name)
        if record is None or record.state is None or not set(brokers).isdisjoint(record.state.isr):
            continue  # raced: the next change of the state brings it here again
        context.removals[name] = set(brokers)
        context.tell(name, to=target_of(record.assignment))
        _stop_replicas(context, name, brokers)


def _leave_isr(context: ControllerContext, dropped: Mapping[PartitionName, Iterable[int]]) -> Steps[None]:
    """Take replicas out of ISRs that have other members."""

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        state = record.state
        isr = () if state is None else tuple(each for each in state.isr if each not in dropped[name])
        if state is None or not isr:
            return None
        if state.leader in isr or state.leader == NO_LEADER:
            return Choice(state.leader, isr)
        leader = elect_from(isr, isr, lambda each: context.is_eligible(each, name))
        return Choice(NO_LEADER if leader is None else leader, isr)

    yield from change_states(context, dropped, decide)


def _stop_replicas(context: ControllerContext, name: PartitionName, brokers: Iterable[int]) -> None:
    topic = context.topics[name[0]]
    state = topic.partitions[name[1]].state
    if state is None:
        return
    for broker_id in brokers:
        context.stop(topic, name[1], broker_id, leader_epoch=state.leader_epoch, delete=True)


def resume_removals(context: ControllerContext, started: Iterable[int]) -> None:
    """Brokers came back: those that hold a replica to be removed are told again."""
    asked = set(started)
    for name, brokers in context.removals.items():
        _stop_replicas(context, name, brokers & asked)


def on_replicas_removed(
    context: ControllerContext, broker_id: int, deleted: set[Log], failed: set[Log]
) -> Steps[None]:
    """A broker deleted replicas; one that cannot (a failed directory) is not waited for. Raises: Deposed."""
    undeleted = set()
    for log in deleted | failed:
        topic, topic_id, index = log
        brokers = context.removals.get((topic, index), set())
        if broker_id in brokers and context.topics[topic].topic_id == topic_id:
            brokers.discard(broker_id)
            if log in failed:
                undeleted.add(log)
    yield from leave_behind(context, {broker_id: undeleted})
    yield from finish_removals(context)


def finish_removals(context: ControllerContext) -> Steps[None]:
    """Step 5 where no live broker has anything left to delete. Raises: Deposed."""
    done = [name for name, brokers in context.removals.items() if brokers.isdisjoint(context.brokers)]
    yield from _leave_logs(context, {name: context.removals[name] for name in done})
    for topic_name in dict.fromkeys(name[0] for name in done):
        topic = context.topics[topic_name]
        changed = {
            index: Assignment(target_of(topic.partitions[index].assignment))
            for name, index in done
            if name == topic_name
        }
        yield from write_assignments(context, topic, changed)
    for name in done:
        del context.removals[name]
        context.reassigning.discard(name)
        context.pending.metadata[name] = None
        yield Unwatch(state_path(*name))
        yield note(Cause.REASSIGNMENT_FINISHED, topic=name[0], partition=name[1])
    if done:
        yield from _strike_off(context)


def _leave_logs(context: ControllerContext, replicas: Mapping[PartitionName, Iterable[int]]) -> Steps[None]:
    left: dict[int, set[Log]] = {}
    for (topic, index), brokers in replicas.items():
        for broker_id in brokers:
            left.setdefault(broker_id, set()).add((topic, context.topics[topic].topic_id, index))
    yield from leave_behind(context, left)


def _strike_off(context: ControllerContext) -> Steps[None]:
    """Leave in /admin/reassign_partitions what is still being moved; the node goes with the last."""
    while True:
        node = yield from read_one(REASSIGN_PARTITIONS)
        if node is None:
            return
        try:
            targets = decode_reassignment(node.data)
        except ZnodeDamaged:
            return  # its own event deals with it
        left = {name: target for name, target in targets.items() if name in context.reassigning}
        version = node.stat.version
        op: Delete | SetData = Delete(REASSIGN_PARTITIONS, version)
        if left:
            op = SetData(REASSIGN_PARTITIONS, encode_reassignment(left), version)
        outcomes = yield from commit_groups(context, [Group("node", [op])] if left != targets else [])
        if not isinstance(outcomes.get("node"), TreeConflict):
            return
