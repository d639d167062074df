"""Brokers that register, die and come back (seed 001: broker failover, broker start-up)."""

from collections.abc import Iterable

import msgspec

from broker.controller.api import PartitionName
from broker.controller.context import BrokerRecord, ControllerContext, PartitionRecord
from broker.controller.deletion import finish_deletions, resume_deletions
from broker.controller.effects import Cause, Connect, Steps, children, note, read
from broker.controller.elections import Choice, elect_from
from broker.controller.internal_topics import create_internal_topics
from broker.controller.leadership import settle
from broker.controller.leftovers import tell_leftovers
from broker.controller.reassignment import advance, finish_removals, resume_removals
from broker.controller.states import Group, change_states, commit_groups
from broker.metadata.znode_paths import BROKER_IDS, broker_path
from broker.metadata.znodes import ZnodeDamaged, decode_registration, encode_registration
from contracts.cluster import NO_LEADER, LiveBroker
from contracts.tree import SetData


def read_brokers() -> Steps[dict[int, BrokerRecord]]:
    """The registered brokers; one whose registration cannot be read is left out."""
    names = [name for name in (yield from children(BROKER_IDS)) if name.isdecimal()]
    nodes = yield from read(broker_path(int(name)) for name in names)
    brokers = {}
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        try:
            registration = decode_registration(node.data)
        except ZnodeDamaged as error:
            yield note(Cause.REGISTRATION_DAMAGED, broker=int(name), reason=str(error))
            continue
        live = LiveBroker(
            broker_id=int(name),
            host=registration.host,
            port=registration.port,
            rack=registration.rack,
            broker_epoch=node.stat.czxid,
        )
        brokers[int(name)] = BrokerRecord(live, registration.is_unclean, node.stat.version)
    return brokers


def on_brokers_changed(context: ControllerContext) -> Steps[None]:
    """The children of /brokers/ids changed. Raises: Deposed.

    A broker that went and came back between two looks has another epoch: it failed and started (KIP-380).
    """
    found = yield from read_brokers()
    known = context.brokers
    bounced = {b for b in found.keys() & known.keys() if _epoch(found[b]) != _epoch(known[b])}
    gone = known.keys() - found.keys()
    started = (found.keys() - known.keys()) | bounced
    moved = {b for b in found.keys() & known.keys() - bounced if found[b].live != known[b].live}
    for broker_id in moved:
        known[broker_id].live = found[broker_id].live
    context.brokers = {b: record for b, record in known.items() if b in found and b not in bounced}
    if not (gone or started or moved):
        return
    context.brokers_changed_ms = context.now_ms
    context.pending.brokers_changed = True
    for broker_id in sorted(gone):
        yield note(Cause.BROKER_FAILED, broker=broker_id)
    for broker_id in sorted(bounced):
        yield note(Cause.BROKER_BOUNCED, broker=broker_id)
    yield Connect(context.live_brokers())
    if gone or bounced:
        yield from _on_failure(context, gone | bounced)
    if started:
        context.brokers.update({broker_id: found[broker_id] for broker_id in started})
        yield Connect(context.live_brokers())
        yield from _on_startup(context, started)


def _epoch(record: BrokerRecord) -> int:
    return record.live.broker_epoch


def _on_failure(context: ControllerContext, dead: Iterable[int]) -> Steps[None]:
    """Partitions they led get new leaders, ISRs lose them, everyone hears which replicas are offline."""
    for broker_id in dead:
        context.shutting_down.discard(broker_id)
        context.failed_replicas.pop(broker_id, None)
    names = context.with_replica_on(dead)
    yield from settle(context, names)
    context.pending.metadata.update(dict.fromkeys(names))
    yield from finish_deletions(context)
    yield from finish_removals(context)


def _on_startup(context: ControllerContext, started: Iterable[int]) -> Steps[None]:
    """New brokers hear the metadata and their replicas; then partitions that waited for them are led."""
    for broker_id in sorted(started):
        yield note(Cause.BROKER_STARTED, broker=broker_id, unclean=context.brokers[broker_id].is_unclean)
    yield from tell_leftovers(context, started)
    yield from expel_unclean(context)
    context.pending.full_metadata |= set(started)
    context.pending.full_leader_and_isr |= set(started)
    names = context.with_replica_on(started)
    context.pending.metadata.update(dict.fromkeys(names))
    yield from settle(context, names)
    resume_removals(context, started)
    yield from advance(context, context.reassigning)
    resume_deletions(context, started)
    yield from create_internal_topics(context)


def expel_unclean(context: ControllerContext) -> Steps[None]:
    """Take brokers that may have lost acknowledged records out of every ISR that has another member.

    What they lost others still have, so they may not lead before they have fetched it again. An ISR of only
    such brokers keeps one: its leader, who had at least what the others had. When the ISRs are written the
    registrations are marked as dealt with, so that a later controller does not do it again. Raises: Deposed.
    """
    unclean = {broker_id for broker_id, record in context.brokers.items() if record.is_unclean}
    if not unclean:
        return

    def decide(name: PartitionName, record: PartitionRecord) -> Choice | None:
        state = record.state
        if state is None or len(state.isr) == 1 or unclean.isdisjoint(state.isr):
            return None
        last = state.leader if state.leader in state.isr else state.isr[0]
        isr = tuple(each for each in state.isr if each not in unclean) or (last,)
        if state.leader in isr:
            return Choice(state.leader, isr)
        leader = elect_from(record.assignment.replicas, isr, lambda each: context.is_eligible(each, name))
        return Choice(NO_LEADER if leader is None else leader, isr)

    written = yield from change_states(context, context.with_replica_on(unclean), decide)
    for name in written:
        record = context.partition(name)
        assert record is not None, "what was just written is known"
        context.tell(name, to=context.active_replicas(name, record))
    yield note(Cause.BROKER_UNCLEAN, brokers=sorted(unclean), partitions=len(written))
    yield from _mark_clean(context, unclean)


def _mark_clean(context: ControllerContext, brokers: Iterable[int]) -> Steps[None]:
    nodes = yield from read(broker_path(broker_id) for broker_id in brokers)
    groups = []
    for broker_id, node in zip(brokers, nodes, strict=True):
        if node is None or node.stat.czxid != _epoch(context.brokers[broker_id]):
            continue  # gone or bounced meanwhile: its watch tells
        registration = decode_registration(node.data)
        data = encode_registration(msgspec.structs.replace(registration, is_unclean=False))
        groups.append(Group(broker_id, [SetData(broker_path(broker_id), data, node.stat.version)]))
    yield from commit_groups(context, groups)
    for broker_id in brokers:
        context.brokers[broker_id].is_unclean = False
