"""Where topics are kept: one small JSON file per topic, named by its id, replaced atomically.

A topic exists exactly when its file does. Creating writes the file before the logs, deleting removes it
before the logs, so a crash in between leaves an empty topic or logs without a topic; both are put right at
start.
"""

from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from broker.durable_file import remove_file, replace_file

_FORMAT_VERSION: Final = 1


class StoredTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a topic."""

    name: str
    topic_id: UUID
    partitions: int
    configs: dict[str, str] = {}
    version: int = _FORMAT_VERSION


class TopicStoreDamaged(Exception):  # noqa: N818 - says what is so
    """A topic's file cannot be read: starting without it would lose a tenant's topic in silence."""


class TopicStore:
    """The directory of topic files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def load(self) -> list[StoredTopic]:
        """All topics, by name. Raises: TopicStoreDamaged."""
        found = []
        for path in self._directory.glob("*.json"):
            try:
                topic = msgspec.json.decode(path.read_bytes(), type=StoredTopic)
            except (OSError, msgspec.MsgspecError) as error:
                raise TopicStoreDamaged(f"{path}: {error}") from error
            if topic.version != _FORMAT_VERSION:
                raise TopicStoreDamaged(f"{path}: version {topic.version}, this is {_FORMAT_VERSION}")
            found.append(topic)
        return sorted(found, key=lambda topic: topic.name)

    def put(self, topic: StoredTopic) -> None:
        """Create or replace a topic. Raises: OSError."""
        path = self._path(topic.topic_id)
        replace_file(path, msgspec.json.encode(topic), path.name + ".tmp")

    def remove(self, topic_id: UUID) -> None:
        """Forget a topic. Raises: OSError."""
        remove_file(self._path(topic_id))

    def _path(self, topic_id: UUID) -> Path:
        return self._directory / f"{topic_id}.json"
