"""Writing partition states: each a compare-and-set on its node, all fenced by the controller's epoch.

A leader that changes its ISR at the same time wins or loses; when it wins, the state is read again and
decided again. So what is written always follows from what was there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from broker.controller.api import PartitionName
from broker.controller.context import ControllerContext, Deposed, PartitionRecord
from broker.controller.effects import Cause, Steps, commit, note, read
from broker.controller.elections import Choice
from broker.metadata.znode_paths import partition_path, state_path
from broker.metadata.znodes import PartitionState, ZnodeDamaged, decode_state, encode_state
from contracts.tree import CommitResult, Conflict, Create, Op, SetData, TreeConflict

_BATCH_OPS_MAX: Final = 200
_BATCH_BYTES_MAX: Final = 256 * 1024
"""Well below ZooKeeper's jute.maxbuffer."""
_OP_OVERHEAD_BYTES: Final = 64

Decide = Callable[[PartitionName, PartitionRecord], Choice | None]
"""The leader and ISR to write, from the record as it is now; None: nothing to write."""


class Group(NamedTuple):
    """Operations that belong together in one batch."""

    key: object
    ops: Sequence[Op]


Outcome = list[CommitResult] | TreeConflict


def commit_groups(context: ControllerContext, groups: Iterable[Group]) -> Steps[dict[object, Outcome]]:
    """Commit many groups in few batches: a refused group is left out and the rest of its batch tried again.

    Raises: Deposed.
    """
    outcomes: dict[object, Outcome] = {}
    batches = _batches(list(groups), _BATCH_OPS_MAX)
    while batches:
        results = yield from commit([[context.fence, *_ops(batch)] for batch in batches])
        again: list[list[Group]] = []
        for batch, result in zip(batches, results, strict=True):
            if isinstance(result, TreeConflict):
                if result.index == 0:
                    raise Deposed
                refused = _group_at(batch, result.index - 1)
                outcomes[refused.key] = result
                rest = [group for group in batch if group is not refused]
                again += _batches(rest, max(1, len(_ops(rest)) // 4))
            else:
                _share_out(batch, result[1:], outcomes)
        batches = again
    return outcomes


def _batches(groups: Sequence[Group], ops_max: int) -> list[list[Group]]:
    batches: list[list[Group]] = []
    ops = size_bytes = 0
    for group in groups:
        bytes_more = sum(
            _OP_OVERHEAD_BYTES + len(op.path) + len(getattr(op, "data", b"")) for op in group.ops
        )
        if not batches or ops + len(group.ops) > ops_max or size_bytes + bytes_more > _BATCH_BYTES_MAX:
            batches.append([])
            ops = size_bytes = 0
        batches[-1].append(group)
        ops += len(group.ops)
        size_bytes += bytes_more
    return batches


def _ops(batch: Iterable[Group]) -> list[Op]:
    return [op for group in batch for op in group.ops]


def _group_at(batch: Sequence[Group], index: int) -> Group:
    for group in batch:
        index -= len(group.ops)
        if index < 0:
            return group
    raise AssertionError("a conflict names an operation of its batch")


def _share_out(batch: Sequence[Group], results: Sequence[CommitResult], into: dict[object, Outcome]) -> None:
    place = 0
    for group in batch:
        into[group.key] = list(results[place : place + len(group.ops)])
        place += len(group.ops)


def change_states(
    context: ControllerContext, names: Iterable[PartitionName], decide: Decide
) -> Steps[dict[PartitionName, Choice]]:
    """Write what `decide` says, with the next leader epoch; returns what was written.

    Raises: Deposed.
    """
    written: dict[PartitionName, Choice] = {}
    existing: set[str] = set()
    pending = list(names)
    while pending:
        choices: dict[object, tuple[PartitionName, PartitionRecord, PartitionState, Choice]] = {}
        groups = []
        for name in pending:
            record = context.partition(name)
            choice = None if record is None else decide(name, record)
            if record is None or choice is None:
                continue
            state = _next_state(context, record, choice)
            choices[name] = (name, record, state, choice)
            groups.append(Group(name, _state_ops(name, record, state, existing)))
        outcomes = yield from commit_groups(context, groups)
        raced: list[PartitionName] = []
        again: list[PartitionName] = []
        for key, outcome in outcomes.items():
            name, record, state, choice = choices[key]
            if not isinstance(outcome, TreeConflict):
                stat = outcome[-1].stat
                assert stat is not None, "a write answers with the node's new version"
                record.state, record.version = state, stat.version
                written[name] = choice
            elif outcome.reason is Conflict.NODE_EXISTS and outcome.path != state_path(*name):
                existing.add(outcome.path)  # the rest of an earlier controller's creation
                again.append(name)
            else:
                raced.append(name)
        if raced:
            yield note(Cause.STATE_RACED, partitions=len(raced), first=raced[0])
        pending = again + (yield from refresh_states(context, raced))
    return written


def _next_state(context: ControllerContext, record: PartitionRecord, choice: Choice) -> PartitionState:
    assert choice.leader < 0 or choice.leader in choice.isr, choice
    assert choice.isr, "an ISR is never empty: it says whose records count"
    return PartitionState(
        leader=choice.leader,
        leader_epoch=0 if record.state is None else record.state.leader_epoch + 1,
        isr=choice.isr,
        controller_epoch=context.controller_epoch,
        leader_recovery_state=int(choice.is_unclean),
    )


def _state_ops(
    name: PartitionName, record: PartitionRecord, state: PartitionState, existing: set[str]
) -> list[Op]:
    data = encode_state(state)
    if record.state is not None:
        return [SetData(state_path(*name), data, record.version)]
    parents = [path for path in (partition_path(*name),) if path not in existing]
    return [*(Create(path) for path in parents), Create(state_path(*name), data)]


def refresh_states(context: ControllerContext, names: Sequence[PartitionName]) -> Steps[list[PartitionName]]:
    """Read states again; returns the partitions that still have one."""
    nodes = yield from read(state_path(*name) for name in names)
    found = []
    for name, node in zip(names, nodes, strict=True):
        record = context.partition(name)
        if record is None or node is None:
            continue  # its topic is going: the topics' watch tells
        try:
            record.state, record.version = decode_state(node.data), node.stat.version
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=state_path(*name), reason=str(error))
            continue
        found.append(name)
    return found
