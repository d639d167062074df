"""The transaction coordinator of one partition of `__transaction_state`: requests and time in, effects out.

The contract with the shard around it is `broker.coordination.effects`. A transaction is decided when its
Prepare record is committed; from then on its markers are written until every partition has one, by this
coordinator or the next, and the Complete record says so. While a record of an id is on its way, others must
come again (CONCURRENT_TRANSACTIONS).
Source: Kafka TransactionCoordinator, TransactionStateManager (3.9, 4.3), KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Batch, Moment, Reply, Token
from broker.coordination.timers import Timers
from broker.transactions.batches import encode_batch
from broker.transactions.ending import Step as EndStep
from broker.transactions.ending import decide_with_bump, ended, told_with
from broker.transactions.failures import failure_of, failure_replies
from broker.transactions.id_totals import IdTotals
from broker.transactions.initialization import Step, begin_anew
from broker.transactions.knowledge import Knowledge
from broker.transactions.messages import (
    AfterAdd,
    AfterDecision,
    AfterEnd,
    AfterForgetting,
    AfterInit,
    Append,
    Continuation,
    DrawProducerId,
    Effects,
    EndRequest,
    EndResult,
    InitRequest,
    InitResult,
    Producer,
    SendMarkers,
    Turn,
)
from broker.transactions.records import TransactionRecord, UnreadableRecord, decode, is_storable
from broker.transactions.registry import Entry, Registry, check_transition
from broker.transactions.state import (
    AT_REST,
    ENDING,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    State,
    TopicPartition,
    Transaction,
)
from broker.transactions.transaction_config import TransactionConfig
from contracts.names import owner_of
from wire.batch import BatchHeader, Record
from wire.control import EndMarker


class TransactionCoordinator:
    """All transactional ids of one partition; who only asks asks `known`."""

    def __init__(
        self, config: TransactionConfig, coordinator_epoch: int, usage: IdTotals | None = None
    ) -> None:
        """`coordinator_epoch` is the partition's leader epoch: markers carry it, and fence older ones."""
        self._registry: Final = Registry(config, usage or IdTotals())
        self.known: Final = Knowledge(self._registry)
        self._coordinator_epoch = coordinator_epoch
        self._timers: Timers[str] = Timers()
        """Transactional ids whose transaction times out, or whose end is written again."""

    # -- recovery

    def replay(self, _header: BatchHeader, records: Iterator[Record]) -> None:
        """Apply a batch of the log; before `activate` only. Raises: UnreadableRecord."""
        for stored in records:
            try:
                record = decode(stored.key or b"", stored.value)
            except UnreadableRecord as error:
                raise UnreadableRecord(f"offset {stored.offset}: {error}") from error
            if record is not None:
                self._registry.replay(record)

    def replay_marker(self, producer_id: int, marker: EndMarker) -> None:
        """There are no transactions in the transaction log."""

    def activate(self, now: Moment) -> Effects:
        """The log was read to its end: what was decided is carried out, what is open may time out."""
        turn = Turn(now)
        for transactional_id, entry in self._registry:
            self._resume(turn, transactional_id, entry)
        return turn.effects

    def encode(self, append: Append, now: Moment) -> Batch:
        """One batch of the transaction log."""
        return Batch(encode_batch(append.record, now.epoch_ms), key=append.record.transactional_id)

    # -- requests

    def init(
        self, request: InitRequest, token: Token, now: Moment, fresh_producer_id: int | None = None
    ) -> Effects:
        """InitProducerId; answered with an InitResult. May command to draw a producer id first."""
        turn = Turn(now)
        entry = self._registry.get(request.transactional_id)
        fault = self._init_fault(request, entry)
        if fault is not None:
            turn.reply(token, InitResult(fault))
            return turn.effects
        value = None if entry is None else entry.value
        outcome = begin_anew(value, request, now.epoch_ms, fresh_producer_id)
        if isinstance(outcome, ErrorCode):
            turn.reply(token, InitResult(outcome))
        elif outcome is Step.NEW_PRODUCER_ID:
            turn.command(DrawProducerId(request, token))
        elif isinstance(outcome, Step):
            assert entry is not None
            reply = Reply(token, InitResult(ErrorCode.concurrent_transactions))
            self._fence(turn, request.transactional_id, entry, reply, for_successor=True)
        else:
            entry = entry or self._registry.create(request.transactional_id)
            self._write(turn, request.transactional_id, entry, outcome, AfterInit(token))
        return turn.effects

    def _init_fault(self, request: InitRequest, entry: Entry | None) -> ErrorCode | None:
        if request.transactional_id == "" or not is_storable(request.transactional_id):
            return ErrorCode.invalid_request
        if not 0 < request.timeout_ms <= self._registry.config.timeout_max_ms:
            return ErrorCode.invalid_transaction_timeout
        if entry is None:
            fits = self._registry.may_create(request.transactional_id)
            return None if fits else ErrorCode.policy_violation
        return ErrorCode.concurrent_transactions if entry.is_busy else None

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        token: Token,
        now: Moment,
        version: int = 0,
    ) -> Effects:
        """AddPartitionsToTxn and AddOffsetsToTxn, or what stands for them in transactions of version 2;
        answered with an ErrorCode."""
        turn = Turn(now)
        found = self.known.current(transactional_id, producer, must_rest=True)
        if isinstance(found, ErrorCode):
            turn.reply(token, found)
            return turn.effects
        entry, value = found
        if value.state is State.ONGOING and partitions <= value.partitions:
            turn.reply(token, ErrorCode.none)
        elif value.state in ENDING:
            turn.reply(token, ErrorCode.concurrent_transactions)
        else:
            ongoing = value.state is State.ONGOING
            grown = value._replace(
                state=State.ONGOING,
                partitions=value.partitions | partitions if ongoing else partitions,
                start_ms=value.start_ms if ongoing else now.epoch_ms,
                last_update_ms=now.epoch_ms,
                version=version,
            )
            self._write(turn, transactional_id, entry, grown, AfterAdd(token))
        return turn.effects

    def end(
        self, transactional_id: str, producer: Producer, is_commit: bool, token: Token, now: Moment
    ) -> Effects:
        """EndTxn; answered with an ErrorCode as soon as the decision is durable."""
        turn = Turn(now)
        found = self.known.current(transactional_id, producer, must_rest=True)
        if isinstance(found, ErrorCode):
            turn.reply(token, found)
            return turn.effects
        entry, value = found
        if value.state is State.ONGOING:
            reply = Reply(token, ErrorCode.none)
            self._decide(turn, transactional_id, entry, value._replace(version=0), is_commit, reply)
            return turn.effects
        complete = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        prepare = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        if value.state is complete:
            turn.reply(token, ErrorCode.none)
        elif value.state is prepare:
            turn.reply(token, ErrorCode.concurrent_transactions)
        else:
            turn.reply(token, ErrorCode.invalid_txn_state)
        return turn.effects

    def end_with_bump(
        self, request: EndRequest, token: Token, now: Moment, fresh_producer_id: int | None = None
    ) -> Effects:
        """EndTxn of a transaction of version 2; answered with an EndResult as soon as the decision is
        durable. May command to draw a producer id first."""
        turn = Turn(now)
        entry = self._registry.get(request.transactional_id)
        if request.transactional_id == "":
            turn.reply(token, EndResult(ErrorCode.invalid_request))
            return turn.effects
        if entry is None or entry.value is None:
            turn.reply(token, EndResult(ErrorCode.invalid_producer_id_mapping))
            return turn.effects
        if entry.is_busy:
            turn.reply(token, EndResult(ErrorCode.concurrent_transactions))
            return turn.effects
        outcome = decide_with_bump(entry.value, request, now.epoch_ms, fresh_producer_id)
        if isinstance(outcome, EndResult):
            turn.reply(token, outcome)
        elif isinstance(outcome, EndStep):
            turn.command(DrawProducerId(request, token))
        else:
            then = AfterDecision(Reply(token, told_with(outcome)))
            self._write(turn, request.transactional_id, entry, outcome, then)
        return turn.effects

    def adopt(self, transactional_id: str, value: Transaction | None, token: Token, now: Moment) -> Effects:
        """An id goes on as another cluster's coordinator knew it, None: is forgotten; answered with an
        ErrorCode. Nobody is served here meanwhile, so what was adopted before may be anything."""
        turn = Turn(now)
        entry = self._registry.get(transactional_id)
        if entry is not None and entry.is_busy:
            turn.reply(token, ErrorCode.concurrent_transactions)
        elif entry is None and (value is None or not self._registry.may_create(transactional_id)):
            turn.reply(token, ErrorCode.none if value is None else ErrorCode.policy_violation)
        else:
            entry = entry or self._registry.create(transactional_id)
            entry.is_pending = True
            turn.append(Append(TransactionRecord(transactional_id, value), AfterAdd(token)))
        return turn.effects

    # -- the end of a transaction

    def _fence(
        self,
        turn: Turn,
        transactional_id: str,
        entry: Entry,
        reply: Reply | None,
        *,
        for_successor: bool = False,
    ) -> None:
        """Abort an open transaction without asking its producer, which finds its epoch outdated.

        It may go on by an end of version 2 that it asks for again, unless there is a successor: then the
        transaction ends as one of version 1, behind which nobody is told of an epoch. A late marker of that
        harms nobody, for the successor gets an epoch behind it before it begins.
        """
        value = entry.value
        assert value is not None
        fenced = value._replace(
            producer_epoch=value.producer_epoch + 1,
            version=0 if for_successor else value.version,
        )
        self._decide(turn, transactional_id, entry, fenced, False, reply)

    def _decide(
        self,
        turn: Turn,
        transactional_id: str,
        entry: Entry,
        value: Transaction,
        is_commit: bool,
        reply: Reply | None,
    ) -> None:
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        decided = value._replace(
            state=state,
            last_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            last_update_ms=turn.now.epoch_ms,
        )
        self._write(turn, transactional_id, entry, decided, AfterDecision(reply))

    def _resume(self, turn: Turn, transactional_id: str, entry: Entry) -> None:
        """Do what the state of an id asks for, when nothing of it is on its way."""
        value = entry.value
        assert value is not None and not entry.is_pending
        self._timers.cancel(transactional_id)
        if value.state is State.ONGOING:
            self._await_timeout(turn, transactional_id, value)
        elif value.state in ENDING:
            entry.awaited = set(value.partitions)
            if entry.awaited:
                turn.command(
                    SendMarkers(
                        transactional_id,
                        Producer(value.producer_id, value.producer_epoch),
                        self._coordinator_epoch,
                        value.state is State.PREPARE_COMMIT,
                        value.partitions,
                        value.version,
                    )
                )
            else:
                self._complete(turn, transactional_id, entry)

    def markers_written(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition], now: Moment
    ) -> Effects:
        """Partitions have their marker, or are no more. The last one ends the transaction."""
        turn = Turn(now)
        entry = self._registry.get(transactional_id)
        value = None if entry is None else entry.value
        if entry is None or value is None or value[:2] != producer or value.state not in ENDING:
            return turn.effects
        entry.awaited.difference_update(partitions)
        if not entry.awaited and not entry.is_pending:
            self._complete(turn, transactional_id, entry)
        return turn.effects

    def _complete(self, turn: Turn, transactional_id: str, entry: Entry) -> None:
        value = entry.value
        assert value is not None and not entry.awaited
        self._write(turn, transactional_id, entry, ended(value, turn.now.epoch_ms), AfterEnd())

    # -- what happens without a request

    def _await_timeout(self, turn: Turn, transactional_id: str, value: Transaction) -> None:
        left_ms = value.start_ms + value.timeout_ms - turn.now.epoch_ms
        # A clock that was set back must not keep a transaction open for longer than it asked for.
        self._wake_in(
            turn, transactional_id, max(min(left_ms, value.timeout_ms), self._registry.config.retry_ms)
        )

    def _wake_in(self, turn: Turn, transactional_id: str, delay_ms: int) -> None:
        self._timers.set(transactional_id, turn.now.monotonic_ms + delay_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, on the monotonic clock; None while nothing is awaited."""
        return self._timers.next_ms()

    def tick(self, now: Moment) -> Effects:
        """Abort what took too long; try again what the log refused."""
        turn = Turn(now)
        while (transactional_id := self._timers.pop_due(now.monotonic_ms)) is not None:
            entry = self._registry.get(transactional_id)
            if entry is None or entry.is_pending:
                continue  # what becomes of the record sets another deadline
            if entry.is_doomed:
                self._doom(turn, transactional_id, entry)
            elif entry.state is State.ONGOING:
                self._fence(turn, transactional_id, entry, None)
            elif entry.state in ENDING and not entry.awaited:
                self._complete(turn, transactional_id, entry)
        return turn.effects

    def sweep(self, now: Moment) -> Effects:
        """Forget ids that have not been used for `transactional.id.expiration.ms`.

        Nothing else is remembered of it: an id whose tombstone the log refuses may be used again before the
        next sweep.
        """
        turn = Turn(now)
        oldest_ms = now.epoch_ms - self._registry.config.id_expiration_ms
        for transactional_id, entry in self._registry:
            value = entry.value
            if value is None or entry.is_pending or entry.is_doomed:
                continue
            if value.state in AT_REST and value.last_update_ms <= oldest_ms:
                self._write(turn, transactional_id, entry, None, AfterForgetting())
        return turn.effects

    def purge_instance(self, instance_id: str, now: Moment) -> Effects:
        """An instance was deleted: its ids go. Its topics, and what is open in them, go by themselves."""
        turn = Turn(now)
        for transactional_id, entry in self._registry:
            if owner_of(transactional_id) == instance_id:
                self._doom(turn, transactional_id, entry)
        return turn.effects

    def _doom(self, turn: Turn, transactional_id: str, entry: Entry) -> None:
        """Forget an id for good, whatever the log refuses meanwhile. Nobody may use it any more."""
        entry.is_doomed = True
        if not entry.is_pending:
            self._write(turn, transactional_id, entry, None, AfterForgetting())

    # -- appends

    def _write(
        self,
        turn: Turn,
        transactional_id: str,
        entry: Entry,
        value: Transaction | None,
        then: Continuation,
    ) -> None:
        assert not entry.is_pending, "one record of an id at a time"
        if value is not None:
            check_transition(entry.value, value)
        entry.is_pending = True
        turn.append(Append(TransactionRecord(transactional_id, value), then))

    def committed(self, append: Append, _base_offset: int, now: Moment) -> Effects:
        """The append's record is below the high watermark: it takes effect, and what waited goes on."""
        turn = Turn(now)
        transactional_id, value = append.record
        self._registry.replay(append.record)
        entry = self._registry.get(transactional_id)
        then = append.then
        if value is None or entry is None:
            self._timers.cancel(transactional_id)
            if isinstance(then, AfterAdd):
                turn.reply(then.token, ErrorCode.none)
            return turn.effects
        entry.is_pending = False
        if isinstance(then, AfterInit):
            producer = Producer(value.producer_id, value.producer_epoch)
            turn.reply(then.token, InitResult(ErrorCode.none, producer))
        elif isinstance(then, AfterAdd):
            turn.reply(then.token, ErrorCode.none)
        elif isinstance(then, AfterDecision) and then.reply is not None:
            turn.replies([then.reply])
        if entry.is_doomed:
            self._doom(turn, transactional_id, entry)
        else:
            self._resume(turn, transactional_id, entry)
        return turn.effects

    def refused(self, append: Append, error: ErrorCode, now: Moment) -> Effects:
        """The append's record could not be written: nothing changed; what nobody asks for is tried again."""
        turn = Turn(now)
        transactional_id = append.record.transactional_id
        turn.replies(failure_replies(append, failure_of(error)))
        entry = self._registry.get(transactional_id)
        assert entry is not None and entry.is_pending
        entry.is_pending = False
        if entry.value is None:
            self._registry.remove(transactional_id)
        elif entry.is_doomed or isinstance(append.then, AfterEnd):
            self._wake_in(turn, transactional_id, self._registry.config.retry_ms)
        elif entry.value.state is State.ONGOING:
            self._await_timeout(turn, transactional_id, entry.value)
        return turn.effects

    def overdue(self, append: Append, error: ErrorCode, now: Moment) -> tuple[Append, Effects]:
        """Who waits learns it; when the record is committed after all, it takes effect in silence."""
        turn = Turn(now)
        turn.replies(failure_replies(append, failure_of(error)))
        return append._replace(then=AfterDecision(None)), turn.effects

    def resigned(self, pending: Iterable[Append]) -> list[Reply]:
        """Everyone who waits is told to look for the coordinator again."""
        self._registry.release()
        return [reply for each in pending for reply in failure_replies(each, ErrorCode.not_coordinator)]
