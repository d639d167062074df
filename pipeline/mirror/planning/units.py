"""What a mirror works on: one partition of a source topic and where it goes. Pure."""

from typing import Final

import msgspec

from pipeline.errors import PipelineError

SAME: Final = "same"
TOPIC_NAME_LENGTH_MAX: Final = 236
"""What is left of Kafka's 249 behind an instance's scope."""


class Unit(msgspec.Struct, frozen=True):
    """One partition, in order: the unit of work, of progress and of fencing."""

    source_id: str
    """The source's cluster id as its clients see it: an instance's id."""
    topic: str
    topic_id: str
    """The source's topic; one that is deleted and made again is another unit."""
    partition: int
    target_topic: str

    @property
    def key(self) -> str:
        """Its transactional id at the target, and the key of its progress."""
        return f"mirror/{self.source_id}/{self.topic_id}/{self.partition}/{self.target_topic}"

    @property
    def lineage(self) -> bytes:
        """What every header about a record of this partition starts with; the offset follows."""
        return f"{self.source_id}/{self.topic_id}/{self.partition}/".encode()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class State:
    """How a task ended."""

    DONE: Final = "done"
    RETRY: Final = "retry"
    """Something is away for a moment."""
    PAUSED: Final = "paused"
    """Somebody must do something; other partitions go on."""
    FENCED: Final = "fenced"
    """Another mirror of the same partition is at work."""
    STOPPED: Final = "stopped"
    """The source is no longer what was mirrored."""


class Outcome(msgspec.Struct):
    """What a task has committed, and how it ended."""

    unit: Unit
    state: str = State.DONE
    """A member of `State`."""
    sentence: str = ""
    position: int = -1
    """Next source offset; -1 while nothing has been mirrored, ever."""
    target_position: int = -1
    """The target's next offset behind what `position` tells of, -1 likewise."""
    records: int = 0
    bytes: int = 0
    filtered: int = 0
    """Records that came from the target and were not sent back."""
    lost: int = 0
    """Offsets that retention had removed before they were mirrored."""
    timestamp_ms: int = -1
    """Time of the newest record mirrored, -1 where there was none."""
    drained: bool = False
    """There was nothing more to read, wherever the planned end is: compaction removed the last offsets."""


def target_name(rename: str, source: str, topic: str) -> str:
    """What a topic is called at the target. Raises: PipelineError for a name that Kafka does not take."""
    name = topic if rename == SAME else rename.replace("{source}", source).replace("{topic}", topic)
    legal = name not in ("", ".", "..") and all(
        character.isascii() and (character.isalnum() or character in "._-") for character in name
    )
    if not legal or len(name) > TOPIC_NAME_LENGTH_MAX:
        raise PipelineError(
            f"topic '{topic}' would be called '{name}' at the target, which is no topic name:"
            " choose another --rename"
        )
    return name


def is_mirrored(topic: str, rename: str, target: str) -> bool:
    """Whether a topic without --topic is taken: not internal ones, nor the copies of the target's topics."""
    if topic.startswith("__"):
        return False
    if rename == SAME or "{source}" not in rename:
        return True
    before, _, after = rename.replace("{source}", target).partition("{topic}")
    return not (topic.startswith(before) and topic.endswith(after))
