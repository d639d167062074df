"""Every transactional id of one partition: what the log says, and what is on its way there."""

from collections import Counter
from collections.abc import Iterator

from broker.transactions.id_totals import IdTotals
from broker.transactions.records import TransactionRecord
from broker.transactions.state import TRANSITIONS, State, TopicPartition, Transaction
from broker.transactions.transaction_config import TransactionConfig
from contracts.names import owner_of


class Entry:
    """One transactional id. Invariant: at most one record of it is on its way to the log."""

    __slots__ = ("awaited", "is_doomed", "is_pending", "value")

    def __init__(self, value: Transaction | None) -> None:
        self.value = value
        """What the log says; None until the first record is there."""
        self.is_pending = False
        """A record is on its way."""
        self.is_doomed = False
        """Its instance is deleted: it is to be forgotten, as soon as nothing of it is on its way."""
        self.awaited: set[TopicPartition] = set()
        """Partitions whose markers are not known to be written."""

    @property
    def is_busy(self) -> bool:
        """Whether clients must come again: nothing new is written of it now."""
        return self.is_pending or self.is_doomed

    @property
    def state(self) -> State:
        """Where its transaction stands."""
        return State.EMPTY if self.value is None else self.value.state


class Registry:
    """The entries by transactional id. `replay` is the only thing that changes what they say."""

    def __init__(self, config: TransactionConfig, usage: IdTotals) -> None:
        faults = config.faults()
        assert not faults, "; ".join(faults)
        self.config = config
        self._entries: dict[str, Entry] = {}
        self.by_instance: Counter[str | None] = Counter()
        self._usage = usage
        usage.add(self.by_instance)

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return iter(tuple(self._entries.items()))

    def get(self, transactional_id: str) -> Entry | None:
        """A known id."""
        return self._entries.get(transactional_id)

    def create(self, transactional_id: str) -> Entry:
        """An id nothing is known of."""
        assert transactional_id not in self._entries
        entry = self._entries[transactional_id] = Entry(None)
        self.by_instance[owner_of(transactional_id)] += 1
        return entry

    def remove(self, transactional_id: str) -> None:
        """Nothing is known of the id any more."""
        del self._entries[transactional_id]
        owner = owner_of(transactional_id)
        self.by_instance[owner] -= 1
        if self.by_instance[owner] == 0:
            del self.by_instance[owner]

    def may_create(self, transactional_id: str) -> bool:
        """Whether the id's instance may have one more."""
        owner = owner_of(transactional_id)
        return owner is None or self._usage.ids(owner) < self.config.ids_per_instance_max

    def release(self) -> None:
        """These ids are coordinated elsewhere from now on."""
        self._usage.remove(self.by_instance)

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record that is below the high watermark."""
        entry = self._entries.get(record.transactional_id)
        if record.value is None:
            if entry is not None:
                self.remove(record.transactional_id)
            return
        if entry is None:
            entry = self.create(record.transactional_id)
        entry.value = record.value


def check_transition(former: Transaction | None, value: Transaction) -> None:
    """Assert that a record may follow what the log says."""
    state = State.EMPTY if former is None else former.state
    assert value.state in TRANSITIONS[state], f"{state.label} may not become {value.state.label}"
    if former is not None and former.producer_id == value.producer_id:
        assert value.producer_epoch >= former.producer_epoch, "epochs of a producer id never decrease"
