"""How much of one instance's questions a broker that is not ours has before it at once.

Such a broker takes requests in the order in which they come: what an instance has there already, all others
wait behind. Its quota makes an instance wait for what it has had, and not before. So the rest waits here, in
order, and nobody else behind it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from wire.api_table import ApiKey

AT_ONCE_US: Final = 2_000
"""Of a broker's threads, as reckoned, from each gateway worker: some twenty small questions, or one that is
answered with thousands of entries."""
_ANSWERED_AT_ONCE: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""What a broker's thread answers as soon as it takes it, however much that is. All else may rest there for
long and cost nothing meanwhile, or is bounded by its bytes."""


class Entry:
    """One question that waits."""

    __slots__ = ("come", "cost_us")

    def __init__(self, cost_us: int, come: Callable[[], None]) -> None:
        self.cost_us = cost_us
        self.come = come


class EngineRoom:
    """Of one instance at one broker.

    Invariant: more than AT_ONCE_US is under way only as one question; whoever waits does so behind others.
    """

    __slots__ = ("_costs_us", "_waiting", "under_way_us")

    def __init__(self) -> None:
        self._costs_us: dict[int, int] = {}
        """What the last answer came to, by API."""
        self._waiting: deque[Entry] = deque()
        self.under_way_us = 0

    def cost_us(self, api_key: int) -> int:
        """What a question takes of the room; 0: it needs none. What was never answered takes all."""
        if api_key not in _ANSWERED_AT_ONCE:
            return 0
        return self._costs_us.get(api_key, AT_ONCE_US)

    def answered(self, api_key: int, cost_us: int) -> None:
        """A question came to so much."""
        self._costs_us[api_key] = cost_us

    def enter(self, cost_us: int) -> bool:
        """Whether a question goes up now, which takes its room; `leave` gives that back."""
        if self._waiting or not self._fits(cost_us):
            return False
        self.under_way_us += cost_us
        return True

    def wait(self, cost_us: int, come: Callable[[], None]) -> Entry:
        """Call `come` once the question has its room: at once where others have left since it was refused."""
        entry = Entry(cost_us, come)
        self._waiting.append(entry)
        self._admit()
        return entry

    def give_up(self, entry: Entry) -> None:
        """The question that waits is not put. It has not its room yet."""
        self._waiting.remove(entry)
        self._admit()

    def leave(self, cost_us: int) -> None:
        """A question was answered, or never will be."""
        self.under_way_us -= cost_us
        assert self.under_way_us >= 0
        self._admit()

    def _fits(self, cost_us: int) -> bool:
        return not self.under_way_us or self.under_way_us + cost_us <= AT_ONCE_US

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0].cost_us):
            entry = self._waiting.popleft()
            self.under_way_us += entry.cost_us
            entry.come()
