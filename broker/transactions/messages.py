"""What goes into the transaction coordinator and what comes out, all plain values."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from broker.coordination import effects
from broker.coordination.effects import Reply, Token
from broker.transactions.records import TransactionRecord
from broker.transactions.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, State, TopicPartition


class Producer(NamedTuple):
    """A producer id in one of its epochs."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class InitRequest(NamedTuple):
    """InitProducerId with a transactional id. `expected` is what a producer that goes on brings (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None


class InitResult(NamedTuple):
    """The answer to InitProducerId."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class EndRequest(NamedTuple):
    """EndTxn of a transaction that has an epoch of its own (version 2)."""

    transactional_id: str
    producer: Producer
    is_commit: bool


class EndResult(NamedTuple):
    """The answer to it: what the producer goes on as."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class DescribedTransaction(NamedTuple):
    """One transactional id as DescribeTransactions shows it."""

    transactional_id: str
    state: State
    producer: Producer
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]


class ListedTransaction(NamedTuple):
    """One transactional id as ListTransactions shows it."""

    transactional_id: str
    producer_id: int
    state: State
    open_since_ms: int
    """-1 while no transaction is open."""


class AfterInit(NamedTuple):
    """Once the new epoch is durable, the producer learns it."""

    token: Token


class AfterAdd(NamedTuple):
    """Once the partitions are durable, the producer may write to them; answered with an error code."""

    token: Token


class AfterDecision(NamedTuple):
    """Once the decision is durable, the transaction ends by it: `reply` may leave, the markers go out."""

    reply: Reply | None
    """What to answer; for a timeout nobody waits."""


class AfterEnd(NamedTuple):
    """The transaction is over; nobody waits."""


class AfterForgetting(NamedTuple):
    """The id is gone; nobody waits."""


Continuation: TypeAlias = AfterInit | AfterAdd | AfterDecision | AfterEnd | AfterForgetting


class Append(NamedTuple):
    """One record, in a batch of its own."""

    record: TransactionRecord
    then: Continuation


class SendMarkers(NamedTuple):
    """Command: write markers to these partitions, as long as it takes; report to `markers_written`."""

    transactional_id: str
    producer: Producer
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int


class DrawProducerId(NamedTuple):
    """Command: draw a producer id, then call `init`, or `end_with_bump`, again with it."""

    request: InitRequest | EndRequest
    token: Token


Effects: TypeAlias = effects.Effects[Append]


class Turn(effects.Turn[Append]):
    """One step of the coordinator."""

    __slots__ = ()

    def replies(self, replies: Iterable[Reply]) -> None:
        """Let answers leave at the end of this step."""
        self.effects.replies.extend(replies)

    def command(self, command: SendMarkers | DrawProducerId) -> None:
        """Have the shell do something."""
        self.effects.commands.append(command)

    def append(self, append: Append) -> None:
        """Write a record, then go on."""
        self.effects.appends.append(append)
