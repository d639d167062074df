"""One transactional id: its producer, its epoch, and where its transaction stands."""

from enum import IntEnum
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 2**15 - 1
LAST_USABLE_EPOCH: Final = EPOCH_MAX - 1
"""A producer with this epoch gets a new id with its next epoch: the last one is left for fencing."""


class State(IntEnum):
    """A transaction's state; the values are what the log keeps."""

    EMPTY = 0
    """No transaction yet, or the producer has just begun anew."""
    ONGOING = 1
    """Partitions have been added."""
    PREPARE_COMMIT = 2
    """Decided: the markers are being written, whatever happens."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every marker is written."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id is being forgotten. Never in the log: a tombstone is."""

    @property
    def label(self) -> str:
        """Kafka's name, as ListTransactions and DescribeTransactions show it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.DEAD}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT, State.DEAD}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT, State.DEAD}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.DEAD: frozenset(),
}
"""From each state, where it may go. Dead comes by expiry, or when the id's instance is deleted. What has no
partitions is aborted for its epoch alone."""
ENDING: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class TopicPartition(NamedTuple):
    """A partition by name."""

    topic: str
    partition: int


class Transaction(NamedTuple):
    """What the log says of a transactional id, and an epoch that it does not keep."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    """When the first partition was added."""
    last_producer_id: int = NO_PRODUCER_ID
    """What the producer had before its epochs were used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """What it had before InitProducerId bumped it, so that its retry is recognized (KIP-360). Not in the log:
    a retry that meets another coordinator is fenced, as with Kafka."""
    next_producer_id: int = NO_PRODUCER_ID
    """While a transaction ends that used up the epochs: what the producer was told to go on with."""
    version: int = 0
    """Of the last transaction, as its client sees it (`transaction.version`)."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch must be that of a new producer id."""
        return self.producer_epoch >= LAST_USABLE_EPOCH
