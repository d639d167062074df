"""Committed offsets: OffsetCommit, OffsetDelete, expiry, and what goes when a topic or a group is deleted.

Source: KIP-211 (retention counts from when the group became empty), KIP-496 (OffsetDelete).
"""

from collections.abc import Callable, Iterable, Iterator

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.groups.group import Group, State
from broker.groups.messages import (
    AfterCommit,
    AfterGroupDeletion,
    AfterHousekeeping,
    AfterOffsetsDeletion,
    CommitRequest,
    CommitResult,
    OffsetsDeletion,
    OffsetsDeletionResult,
    OffsetToCommit,
    TransactionalCommit,
    Turn,
)
from broker.groups.pending import OffsetKey
from broker.groups.records import GroupRecord, OffsetAndMetadata, OffsetRecord, Record, is_storable
from broker.groups.registry import Registry
from broker.groups.subscription import CONSUMER_PROTOCOL_TYPE

_STATES_THAT_KEEP_SESSIONS = (State.STABLE, State.PREPARING_REBALANCE)


class Offsets:
    """Decides what becomes of committed offsets. They change only when the records come back by replay."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def commit(self, turn: Turn, request: CommitRequest, token: Token) -> None:
        """Decide one OffsetCommit; a commit of a member counts as a sign of life."""
        group = self._registry.get(request.group_id)
        fault = self._commit_fault(group, request)
        if fault is not None:
            turn.reply(token, CommitResult({(one.topic, one.partition): fault for one in request.offsets}))
            return
        if group is not None and group.state in _STATES_THAT_KEEP_SESSIONS:
            self._registry.extend_session(group, request.member_id, turn.now)
        errors, records = self._checked(turn, request.group_id, request.offsets, request.retention_ms)
        if records:
            turn.append(request.group_id, records, AfterCommit(token, errors))
        else:
            turn.reply(token, CommitResult(errors))

    def commit_in_transaction(self, turn: Turn, request: TransactionalCommit, token: Token) -> None:
        """Decide one TxnOffsetCommit: the offsets wait for the end of the producer's transaction."""
        fault = self._transactional_fault(self._registry.get(request.group_id), request)
        if fault is not None:
            turn.reply(token, CommitResult({(one.topic, one.partition): fault for one in request.offsets}))
            return
        errors, records = self._checked(turn, request.group_id, request.offsets, None)
        if records:
            turn.append_transactional(request, records, AfterCommit(token, errors))
        else:
            turn.reply(token, CommitResult(errors))

    def _checked(
        self, turn: Turn, group_id: str, offsets: tuple[OffsetToCommit, ...], retention_ms: int | None
    ) -> tuple[dict[tuple[str, int], ErrorCode], tuple[Record, ...]]:
        """The answer for each partition, and the records of those that may be written."""
        errors: dict[tuple[str, int], ErrorCode] = {}
        records: list[Record] = []
        commit_ms = turn.now.epoch_ms
        expire_ms = None if retention_ms is None else commit_ms + retention_ms
        for one in offsets:
            oversize = len(one.metadata.encode()) > self._registry.config.offset_metadata_bytes_max
            errors[one.topic, one.partition] = (
                ErrorCode.offset_metadata_too_large if oversize else ErrorCode.none
            )
            if not oversize:
                value = OffsetAndMetadata(one.offset, one.leader_epoch, one.metadata, commit_ms, expire_ms)
                records.append(OffsetRecord(group_id, one.topic, one.partition, value))
        if not self._registry.may_grow(group_id, self._registry.durable.growth_bytes(records)):
            return dict.fromkeys(errors, ErrorCode.invalid_commit_offset_size), ()
        return errors, tuple(records)

    def _commit_fault(self, group: Group | None, request: CommitRequest) -> ErrorCode | None:
        if not is_storable(request.group_id):
            return ErrorCode.invalid_group_id
        consumers = self._registry.durable.consumer_groups.get(request.group_id)
        if consumers is not None:
            return consumers.commit_fault(request.member_id, request.generation_id)
        if group is None:
            if request.generation_id >= 0:
                return ErrorCode.illegal_generation
            # A simple consumer, or an administrator: the group comes to be with its first offset.
            fits = self._registry.may_create(request.group_id)
            return None if fits else ErrorCode.group_max_size_reached
        if request.generation_id < 0 and group.state is State.EMPTY:
            return None
        if request.generation_id < 0 and request.member_id == "" and request.group_instance_id is None:
            return ErrorCode.unknown_member_id
        fault = group.member_fault(request.member_id, request.group_instance_id)
        if fault is not None:
            return fault
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        completing = group.state is State.COMPLETING_REBALANCE
        return ErrorCode.rebalance_in_progress if completing else None

    def _transactional_fault(self, group: Group | None, request: TransactionalCommit) -> ErrorCode | None:
        """KIP-447: a client that names its member must still be one, of this generation."""
        if not is_storable(request.group_id):
            return ErrorCode.invalid_group_id
        if request.generation_id < 0 and request.member_id == "" and request.group_instance_id is None:
            known = self._registry.is_live(request.group_id) or self._registry.may_create(request.group_id)
            return None if known else ErrorCode.group_max_size_reached
        consumers = self._registry.durable.consumer_groups.get(request.group_id)
        if consumers is not None:
            fault = consumers.commit_fault(request.member_id, request.generation_id)
            # A producer knows generations only.
            return ErrorCode.illegal_generation if fault is ErrorCode.stale_member_epoch else fault
        if group is None:
            return ErrorCode.illegal_generation
        fault = group.member_fault(request.member_id, request.group_instance_id)
        if fault is not None:
            return fault
        return None if request.generation_id == group.generation_id else ErrorCode.illegal_generation

    def delete(self, turn: Turn, request: OffsetsDeletion, token: Token) -> None:
        """Decide one OffsetDelete: not while members subscribe to the topic."""
        error = self._delete_fault(request.group_id)
        if error is not None:
            turn.reply(token, OffsetsDeletionResult(error, {}))
            return
        errors: dict[tuple[str, int], ErrorCode] = {}
        records: list[Record] = []
        known = self._registry.durable.offset_keys(request.group_id)
        for topic, partition in request.partitions:
            subscribed = self._is_subscribed(request.group_id, topic)
            errors[topic, partition] = ErrorCode.group_subscribed_to_topic if subscribed else ErrorCode.none
            if not subscribed and OffsetKey(request.group_id, topic, partition) in known:
                records.append(OffsetRecord(request.group_id, topic, partition, None))
        if records:
            self._registry.emptied.add(request.group_id)
            turn.append(request.group_id, tuple(records), AfterOffsetsDeletion(token, errors))
        else:
            turn.reply(token, OffsetsDeletionResult(ErrorCode.none, errors))

    def _is_subscribed(self, group_id: str, topic: str) -> bool:
        consumers = self._registry.durable.consumer_groups.get(group_id)
        if consumers is not None:
            return consumers.is_subscribed_to(topic)
        return self._registry.groups[group_id].is_subscribed_to(topic)

    def _delete_fault(self, group_id: str) -> ErrorCode | None:
        group = self._registry.get(group_id)
        if group is None:
            return None if self._registry.is_live(group_id) else ErrorCode.group_id_not_found
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.non_empty_group
        return None

    def delete_group(self, turn: Turn, group_id: str, token: Token) -> None:
        """Decide one group of DeleteGroups; the answer is a bare error code."""
        group = self._registry.get(group_id)
        consumers = self._registry.durable.consumer_groups.get(group_id)
        if group is None and consumers is None:
            turn.reply(token, ErrorCode.group_id_not_found)
        elif (group is not None and group.state is not State.EMPTY) or (consumers and not consumers.is_empty):
            turn.reply(token, ErrorCode.non_empty_group)
        else:
            if group is not None:
                self._forget_pending(group)
            self._registry.emptied.discard(group_id)
            records = self._registry.durable.tombstones(group_id)
            if records:
                turn.append(group_id, records, AfterGroupDeletion(token))
            else:
                turn.reply(token, ErrorCode.none)

    def _forget_pending(self, group: Group) -> None:
        for member_id in tuple(group.pending_join):
            group.remove(member_id)
            self._registry.end_session(group, member_id)

    def forget_topics(self, turn: Turn, topics: Iterable[str]) -> None:
        """Deleted topics take their committed offsets with them: a new topic of the name starts anew."""
        gone = frozenset(topics)
        durable = self._registry.durable
        for group_id in durable.group_ids():
            records: tuple[Record, ...] = tuple(
                OffsetRecord(*key, None) for key in sorted(durable.offset_keys(group_id)) if key.topic in gone
            )
            if records:
                turn.append(group_id, records, AfterHousekeeping())

    def expire(self, turn: Turn, is_held: Callable[[str], bool]) -> None:
        """Remove offsets past their retention, and empty groups that have none left; of held groups none."""
        for group_id in self._registry.durable.group_ids():
            if is_held(group_id):
                continue
            records = self._expired(group_id, turn.now.epoch_ms)
            if records:
                turn.append(group_id, records, AfterHousekeeping())

    def _expired(self, group_id: str, now_ms: int) -> tuple[Record, ...]:
        durable = self._registry.durable
        records: list[Record] = []
        kept = durable.has_pending(group_id)
        for topic, partition, value in self._each_offset(group_id):
            pending = self._registry.is_unstable(OffsetKey(group_id, topic, partition))
            if not pending and self._is_expired(group_id, topic, value, now_ms):
                records.append(OffsetRecord(group_id, topic, partition, None))
            else:
                kept = True
        if not kept:
            records += self._unused(group_id)
        return tuple(records)

    def _unused(self, group_id: str) -> Iterable[Record]:
        """What removes a group without offsets that nobody is in."""
        consumers = self._registry.durable.consumer_groups.get(group_id)
        if consumers is not None:
            in_flight = group_id in self._registry.in_flight
            return consumers.tombstones() if consumers.is_empty and not in_flight else ()
        is_stored = self._registry.durable.group(group_id) is not None
        unused = is_stored and self._registry.groups[group_id].is_unused
        return (GroupRecord(group_id, None),) if unused else ()

    def _each_offset(self, group_id: str) -> Iterator[tuple[str, int, OffsetAndMetadata]]:
        for topic, partitions in self._registry.durable.offsets(group_id).items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def _is_expired(self, group_id: str, topic: str, value: OffsetAndMetadata, now_ms: int) -> bool:
        """KIP-211: groups without members count from when they became empty; stable consumer groups expire
        only topics they no longer subscribe to, simple ones by the commit; others nothing."""
        retention_ms = self._registry.config.offsets_retention_ms
        since_ms = value.commit_timestamp_ms
        consumers = self._registry.durable.consumer_groups.get(group_id)
        group = self._registry.get(group_id)
        if consumers is not None:
            # When it became empty is not in its records: each offset is as young as its commit.
            if consumers.is_subscribed_to(topic):
                return False
        elif group is not None and group.protocol_type is not None:
            if group.state is State.EMPTY:
                # Offsets committed since by an administrator are as young as their commit.
                since_ms = max(since_ms, group.state_timestamp_ms or 0)
            elif group.state is not State.STABLE or group.subscribed is None or topic in group.subscribed:
                return False
        if value.expire_timestamp_ms is not None:
            return now_ms >= value.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms
