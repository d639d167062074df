"""Where a view of messages begins in each partition, also in one that does not answer now. Pure."""

from typing import Final, NamedTuple

from tenants.rules.message_scan import Asked, Budget, Look, LookBack, Unanswered

_NO_ANSWER: Final = "the partition has no leader now, or it does not answer"


class From(NamedTuple):
    """Where a view begins: one of these, or else with the newest."""

    offset: int | None = None
    at_ms: int | None = None
    next_offsets: dict[int, int | None] | None = None
    """Where the view before this one ended. None: that partition did not answer, and begins at `at_ms`."""

    def place(self, partition: int) -> int | None:
        """The offset, when it is known before the partition answers."""
        return self.offset if self.next_offsets is None else self.next_offsets.get(partition)

    def is_timed(self, partition: int) -> bool:
        """Whether a partition begins at `at_ms`: not one that was made after the view before."""
        is_placed = self.next_offsets is not None and self.next_offsets.get(partition, 0) is not None
        return self.at_ms is not None and not is_placed


class Ends(NamedTuple):
    """Offsets of one partition, as its leader told them; None: it did not."""

    start: int | None
    end: int | None
    of_time: int | None
    """Of the first message of `at_ms` or later; -1: there is none."""


def begun(partition: int, begin: From, ends: Ends, asked: Asked, budget: Budget) -> Look:
    """One partition, where it begins."""
    place, is_timed = begin.place(partition), begin.is_timed(partition)
    if ends.start is None or ends.end is None or (is_timed and ends.of_time is None):
        return Unanswered(partition, place, _NO_ANSWER, asked, budget)
    if place is None:
        place = ends.end if begin.next_offsets is None else ends.start
        if is_timed and ends.of_time is not None:
            place = ends.end if ends.of_time < 0 else ends.of_time
    kind = LookBack if asked.newest_first else Look
    return kind(partition, ends.start, ends.end, place, asked, budget)
