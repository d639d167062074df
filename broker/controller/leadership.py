"""Giving partitions leaders: after failures, at start-up, and preferred ones."""

from collections import Counter
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from broker.controller.api import OK, ElectionKind, PartitionName, Verdict
from broker.controller.context import ControllerContext, PartitionRecord
from broker.controller.effects import Answer, Cause, Steps, note
from broker.controller.elections import Choice, elect_from, elect_offline, first_leader
from broker.controller.events import ElectLeaders
from broker.controller.states import Decide, change_states
from contracts.cluster import NO_LEADER


def settle(context: ControllerContext, names: Iterable[PartitionName]) -> Steps[set[PartitionName]]:
    """Make each partition's state fit who is alive: a live leader where one can be, no dead ISR members.

    Returns the partitions whose state was written; their replicas are told. Raises: Deposed.
    """
    new: set[PartitionName] = set()

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        if record.state is None:
            new.add(name)
            return _first(context, name, record)
        return _fitting(context, name, record, unclean=context.allows_unclean(name[0]))

    return (yield from _change_and_tell(context, names, decide, new))


def _first(context: ControllerContext, name: PartitionName, record: PartitionRecord) -> Choice | None:
    return first_leader(
        record.assignment.replicas,
        lambda broker: context.is_eligible(broker, name),
        lambda broker: context.is_alive(broker, name),
    )


def _fitting(
    context: ControllerContext, name: PartitionName, record: PartitionRecord, *, unclean: bool
) -> Choice | None:
    state = record.state
    assert state is not None, "a partition without a state gets its first leader"
    if context.is_alive(state.leader, name):
        isr = tuple(each for each in state.isr if context.is_alive(each, name))
        return None if isr == state.isr else Choice(state.leader, isr)
    choice = elect_offline(
        context.active_replicas(name, record),
        state.isr,
        lambda broker: context.is_eligible(broker, name),
        lambda broker: context.is_alive(broker, name),
        unclean,
    )
    return None if choice.leader == NO_LEADER == state.leader else choice


def _change_and_tell(
    context: ControllerContext,
    names: Iterable[PartitionName],
    decide: Decide,
    new: Iterable[PartitionName] = (),
) -> Steps[set[PartitionName]]:
    before: dict[PartitionName, int] = {}

    def deciding(name: PartitionName, record: PartitionRecord) -> Choice | None:
        before[name] = NO_LEADER if record.state is None else record.state.leader
        return decide(name, record)

    written = yield from change_states(context, names, deciding)
    fresh = set(new)
    for name in written:
        record = context.partition(name)
        assert record is not None, "what was just written is known"
        replicas = context.active_replicas(name, record)
        context.tell(name, to=replicas, new=replicas if name in fresh else ())
    yield from _note_elections({name: each for name, each in written.items() if each.leader != before[name]})
    return set(written)


def _note_elections(elected: dict[PartitionName, Choice]) -> Steps[None]:
    leaderless = [name for name, choice in elected.items() if choice.leader == NO_LEADER]
    unclean = [name for name, choice in elected.items() if choice.is_unclean]
    if len(elected) > len(leaderless):
        yield note(Cause.LEADERS_ELECTED, partitions=len(elected) - len(leaderless))
    if leaderless:
        yield note(Cause.NO_ELIGIBLE_LEADER, partitions=len(leaderless), first=leaderless[0])
    for name in unclean:
        yield note(Cause.UNCLEAN_ELECTION, topic=name[0], partition=name[1], leader=elected[name].leader)


def elect_preferred(
    context: ControllerContext, names: Iterable[PartitionName]
) -> Steps[dict[PartitionName, Verdict]]:
    """Give leadership to the first assigned replica where it is eligible and in sync. Raises: Deposed."""
    verdicts: dict[PartitionName, Verdict] = {}

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        state, preferred = record.state, record.assignment.replicas[0]
        if state is not None and state.leader == preferred and context.is_alive(preferred, name):
            verdicts[name] = Verdict(
                ErrorCode.election_not_needed, "Leader election not needed for topic partition."
            )
            return None
        if state is None or not context.is_eligible(preferred, name) or preferred not in state.isr:
            verdicts[name] = Verdict(
                ErrorCode.preferred_leader_not_available,
                f"Failed to elect leader for partition {name[0]}-{name[1]} under strategy "
                "PreferredReplicaPartitionLeaderElectionStrategy",
            )
            return None
        verdicts[name] = OK
        return Choice(preferred, tuple(each for each in state.isr if context.is_alive(each, name)))

    elected = yield from _change_and_tell(context, names, decide)
    if elected:
        yield note(Cause.PREFERRED_ELECTION, partitions=len(elected))
    return verdicts


def elect_unclean(
    context: ControllerContext, names: Iterable[PartitionName]
) -> Steps[dict[PartitionName, Verdict]]:
    """An operator's order: partitions without a leader get any live replica. Raises: Deposed."""
    verdicts: dict[PartitionName, Verdict] = {}

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        if context.has_live_leader(name, record):
            verdicts[name] = Verdict(
                ErrorCode.election_not_needed, "Leader election not needed for topic partition."
            )
            return None
        choice = (
            _first(context, name, record)
            if record.state is None
            else _fitting(context, name, record, unclean=True)
        )
        if choice is None or choice.leader == NO_LEADER:
            verdicts[name] = Verdict(
                ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive."
            )
            return None
        verdicts[name] = OK
        return choice

    yield from _change_and_tell(context, names, decide)
    return verdicts


def on_elect_leaders(context: ControllerContext, call: ElectLeaders) -> Steps[Answer]:
    """ElectLeaders; the answer is yielded by the caller when the brokers have been told."""
    asked = list(call.partitions) if call.partitions is not None else None
    names = [name for name, _ in context.every_partition()] if asked is None else asked
    known = [name for name in names if context.partition(name) is not None]
    elect = elect_preferred if call.kind is ElectionKind.PREFERRED else elect_unclean
    verdicts = yield from elect(context, known)
    if asked is None:
        not_needed = ErrorCode.election_not_needed
        return Answer(call.call_id, {n: v for n, v in verdicts.items() if v.error_code != not_needed})
    unknown = Verdict(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    return Answer(call.call_id, {name: verdicts.get(name, unknown) for name in asked})


def balance_leaders(context: ControllerContext) -> Steps[None]:
    """Automatic preferred election: brokers that lead too few of the partitions that prefer them.

    Kafka's leader.imbalance.per.broker.percentage. Partitions being reassigned are left alone. Raises:
    Deposed.
    """
    prefer: Counter[int] = Counter()
    elsewhere: dict[int, list[PartitionName]] = {}
    for name, record in context.every_partition():
        preferred = record.assignment.replicas[0]
        prefer[preferred] += 1
        if record.state is not None and record.state.leader != preferred:
            elsewhere.setdefault(preferred, []).append(name)
    percentage = context.config.leader_imbalance_per_broker_percentage
    for broker_id, names in elsewhere.items():
        if broker_id not in context.brokers or 100 * len(names) <= percentage * prefer[broker_id]:
            continue
        movable = [name for name in names if _may_move_home(context, name, broker_id)]
        if movable:
            yield note(Cause.LEADERS_UNBALANCED, broker=broker_id, led_elsewhere=len(names))
            yield from elect_preferred(context, movable)


def _may_move_home(context: ControllerContext, name: PartitionName, broker_id: int) -> bool:
    record = context.partition(name)
    return (
        record is not None
        and record.state is not None
        and name not in context.reassigning
        and elect_from((broker_id,), record.state.isr, lambda each: context.is_eligible(each, name))
        is not None
    )
