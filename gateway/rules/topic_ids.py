"""Which topic ids are an instance's own. Pure: who asks the cluster is `gateway/outside.py`.

An id is never given twice, so what was learned stays true; of a topic that is gone its broker says so.
Whether an id is somebody else's or nobody's is not told apart: neither is in an answer about this instance.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable
from typing import Final
from uuid import UUID

KNOWN_BEYOND: Final = 10_000
"""Topic ids of one instance that a worker remembers with their names, beyond as many as the instance may have
partitions: those of topics that are gone. Clients ask for metadata every few minutes: what is used stays."""
UNKNOWN_MAX: Final = 1_000
"""Topic ids that a worker remembers as not the instance's own: what is asked of a cluster for nothing."""
UNKNOWN_MS: Final = 1_000
"""So long; a topic that was made just now is soon found."""
ASKED_MAX: Final = 500
"""Ids that are looked up for one request; the rest of it is unknown until it is asked again."""


class TopicIds:
    """The ids of one instance's topics. Those that a broker named longest ago go first."""

    def __init__(self) -> None:
        self._known_max = KNOWN_BEYOND
        self._names: OrderedDict[bytes, str] = OrderedDict()
        self.known: Final[Container[bytes]] = self._names
        """The ids that are known to be its topics', by their 16 bytes, as frames have them."""
        self._unknown_until_ms: OrderedDict[UUID, int] = OrderedDict()

    def make_room(self, topics_max: int) -> None:
        """Remember as many topics as the instance may have, and some more."""
        self._known_max = topics_max + KNOWN_BEYOND
        self._leave_out()

    def name(self, topic_id: UUID | None) -> str | None:
        """The tenant's name of one of its topics; None: it is not known to be one."""
        return None if topic_id is None else self._names.get(topic_id.bytes)

    def knows(self, topic_ids: Iterable[bytes]) -> bool:
        """Whether all of these are."""
        return all(topic_id in self._names for topic_id in topic_ids)

    def to_ask(self, topic_ids: Iterable[UUID | None], now_ms: int) -> list[UUID]:
        """Those that nothing is known of, each once."""
        unknown = self._unknown_until_ms
        asked: dict[UUID, None] = {}
        for topic_id in topic_ids:
            if topic_id is None or topic_id.bytes in self._names or unknown.get(topic_id, 0) > now_ms:
                continue
            asked[topic_id] = None
            if len(asked) == ASKED_MAX:
                break
        return list(asked)

    def learn(self, names: Iterable[tuple[UUID | None, str | None]]) -> None:
        """Take in what a broker has said of the instance's own topics."""
        known = self._names
        for topic_id, name in names:
            if topic_id is None or name is None:
                continue
            known[topic_id.bytes] = name
            known.move_to_end(topic_id.bytes)
            self._unknown_until_ms.pop(topic_id, None)
        self._leave_out()

    def not_found(self, topic_ids: Iterable[UUID], now_ms: int) -> None:
        """These were asked for, and none of the answer was the instance's."""
        unknown = self._unknown_until_ms
        for topic_id in topic_ids:
            if topic_id.bytes not in self._names:
                unknown[topic_id] = now_ms + UNKNOWN_MS
                unknown.move_to_end(topic_id)
        while len(unknown) > UNKNOWN_MAX:
            unknown.popitem(last=False)

    def _leave_out(self) -> None:
        while len(self._names) > self._known_max:
            self._names.popitem(last=False)
