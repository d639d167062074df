"""What the driver knows of each partition, and which of them the next round works on. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.progress import Position
from pipeline.mirror.planning.units import Outcome, State
from wire.request_bounds import pieces

_RETRY_FIRST_MS: Final = 500
_RETRY_MAX_MS: Final = 5_000
_PAUSE_MS: Final = 30_000
SMALL_OFFSETS_MAX: Final = 1_000
SMALL_AT_ONCE: Final = 8
FENCED_MAX: Final = 3
"""So often in a row a partition is taken over again; then the other mirror keeps it."""


@dataclass(frozen=True)
class MirrorRequest:
    """What is to be mirrored where."""

    source: str
    """What people call the source: `{source}` of the names at the target."""
    target: str
    source_address: Address
    target_address: Address
    topics: tuple[str, ...] = ()
    """Empty: all but internal ones and what came from the target."""
    rename: str = "{source}.{topic}"
    continuous: bool = False
    skip_lost: bool = False
    """Go on behind what the source's retention removed before it was mirrored."""
    groups: tuple[str, ...] = ()


class Track(Outcome, kw_only=True):
    """One partition of this run: the outcome of its tasks so far, and what is left."""

    target_topic_id: str
    batch_bytes_max: int
    """The target topic's max.message.bytes."""
    codec: str
    """The source topic's compression.type, empty where it names none."""
    start: int
    """The source's first offset when the run began, or where an earlier run ended."""
    end: int = 0
    """The source's last stable offset."""
    goal: int = 0
    """Where a run that is not continuous stops."""
    failures: int = 0
    not_before_ms: int = 0

    @property
    def reached(self) -> int:
        """Everything of this run below this offset is done."""
        return max(self.position, self.start)

    @property
    def lag(self) -> int:
        """Offsets that are not mirrored yet."""
        return 0 if self.drained else max(0, self.end - self.reached)

    def see(self, position: Position) -> None:
        """Progress that was committed."""
        if position.target_topic_id == self.target_topic_id and position.position >= self.position:
            self.position, self.target_position = position.position, position.target_position
            self.timestamp_ms = max(self.timestamp_ms, position.timestamp_ms)

    def extend(self, end: int) -> None:
        """The source's end as it is now."""
        if end > self.end:
            self.drained = False
        self.end = end

    def take(self, outcome: Outcome, now_ms: int) -> None:
        """How a task on this partition ended."""
        advanced = outcome.position > self.reached
        if outcome.position >= self.position and outcome.position >= 0:
            self.position, self.target_position = outcome.position, outcome.target_position
        self.records += outcome.records
        self.bytes += outcome.bytes
        self.filtered += outcome.filtered
        self.lost += outcome.lost
        self.timestamp_ms = max(self.timestamp_ms, outcome.timestamp_ms)
        self.state, self.sentence = outcome.state, outcome.sentence
        self.failures = 0 if advanced or outcome.state == State.DONE else self.failures + 1
        self.drained = outcome.drained
        wait_ms = 0
        if outcome.state in (State.RETRY, State.FENCED):
            wait_ms = min(_RETRY_FIRST_MS << min(self.failures, 6), _RETRY_MAX_MS)
        elif outcome.state == State.PAUSED:
            wait_ms = _PAUSE_MS
        self.not_before_ms = now_ms + wait_ms


class Plan(NamedTuple):
    """What a task is told. It finds out itself, behind its fence, how far the mirror really is."""

    track: Track
    """Up to its `end` the task works; what it fetches beyond is mirrored, too."""
    request: MirrorRequest
    target_id: str
    progress_from: int
    """Offset in the progress topic up to which the driver has read."""


def bundled(plans: Sequence[Plan]) -> list[list[Plan]]:
    """What tasks do: a partition with much to copy by itself, some with little side by side, since most of
    their time is waiting for answers.
    """
    large = [[plan] for plan in plans if plan.track.lag > SMALL_OFFSETS_MAX]
    small = [plan for plan in plans if plan.track.lag <= SMALL_OFFSETS_MAX]
    return large + [[*some] for some in pieces(small, 2 * SMALL_AT_ONCE)]


def due(tracks: Iterable[Track], now_ms: int, *, continuous: bool) -> list[Track]:
    """Whose turn it is, the longest work first."""
    ready = [
        track
        for track in tracks
        if track.lag
        and track.not_before_ms <= now_ms
        and (continuous or (track.reached < track.goal and track.state != State.PAUSED))
    ]
    return sorted(ready, key=lambda track: -track.lag)


def unfinished(tracks: Iterable[Track]) -> bool:
    """Whether a run that is not continuous has something left that can still be done."""
    return any(track.lag and track.reached < track.goal and track.state != State.PAUSED for track in tracks)


def lag_seconds(tracks: Iterable[Track], now_ms: int) -> int:
    """The age of the newest mirrored record of the partition that is furthest behind; 0 where none is."""
    ages_ms = [now_ms - track.timestamp_ms for track in tracks if track.lag and track.timestamp_ms >= 0]
    return max(0, *ages_ms) // 1000 if ages_ms else 0
