"""One side of a mirror as its clients see it: topics, ids, offsets, configs."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions, NewTopic, OffsetSpec

from pipeline.errors import PipelineError
from pipeline.ingest.admin import TIMEOUT_S, Admin, Configs, Place, Topic
from pipeline.ingest.offsets import KafkaSource, probe
from pipeline.mirror.clients import settings
from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.errors import Paused, Unreachable, failure_of

_CHECKED_EVERY_S: Final = 0.1
T = TypeVar("T")


class Told(NamedTuple, Generic[T]):
    """Of topics that were asked for, by name, as far as they exist."""

    of: dict[str, T]
    refused: dict[str, str]
    """Why this client may not ask that of a topic."""


class Cluster:
    """Raises, in all methods: Unreachable, Paused; PipelineError where the client properties are no good."""

    def __init__(self, address: Address, side: str) -> None:
        self.address = address
        self.side = side
        """`source` or `target`."""
        try:
            self._admin = Admin(settings(address, {}), self._failure)
        except KafkaException as error:
            raise PipelineError(f"--{side}-config: {error.args[0].str()}") from error

    def _failure(self, error: KafkaError, doing: str) -> Exception:
        found = failure_of(error, f"{doing} at the {self.side}")
        if not isinstance(found, Unreachable) or error.code() >= 0:
            return found
        reason = probe(KafkaSource(self.address.bootstrap, self.address.config))
        heard = self._admin.heard
        why = reason or (str(found) if heard is None else str(heard.str()))
        return Unreachable(f"the {self.side} at {self.address.bootstrap}: {why}")

    def cluster_id(self) -> str:
        """An instance's id, or a Kafka's cluster id."""
        asked = self._admin.client.describe_cluster(request_timeout=TIMEOUT_S)
        return str(self._admin.result(asked, "asking for the cluster id").cluster_id or "")

    def names(self) -> list[str]:
        """Of all topics that this client may know of."""
        return self._admin.names()

    def view(self, names: Iterable[str]) -> Told[Topic]:
        """These topics."""
        return _told(self._admin.topics([*names]))

    def configs(self, topics: Iterable[str]) -> Told[Configs]:
        """All configs of these topics."""
        return _told(self._admin.configs([*topics]))

    def create(self, topics: Mapping[str, NewTopic]) -> dict[str, str]:
        """Create topics, unless somebody else did; why some were refused."""
        return _told(self._admin.create(topics)).refused

    def topic(self, name: str) -> Topic | None:
        """One topic, None where it does not exist. Raises: Paused where this client may not use it."""
        view = self.view([name])
        if name in view.refused:
            raise Paused(view.refused[name])
        return view.of.get(name)

    def offsets(self, places: Iterable[Place], spec: OffsetSpec, *, committed: bool) -> dict[Place, int]:
        """EARLIEST or LATEST, of what is committed or of everything; without partitions that are gone."""
        return self._admin.offsets(places, spec, committed=committed)

    def offset(self, place: Place, spec: OffsetSpec, *, committed: bool) -> int:
        """Of one partition. Raises: Unreachable where it is gone."""
        found = self.offsets([place], spec, committed=committed)
        if place not in found:
            raise Unreachable(f"{place[0]}-{place[1]} of the {self.side} is not there")
        return found[place]

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions."""
        wanted = [NewPartitions(topic, partitions)]
        (asked,) = self._admin.client.create_partitions(wanted, request_timeout=TIMEOUT_S).values()
        self._admin.result(asked, f"adding partitions to '{topic}'")

    def committed(self, group: str) -> dict[Place, int]:
        """What a group has committed."""
        wanted = [ConsumerGroupTopicPartitions(group)]
        (asked,) = self._admin.client.list_consumer_group_offsets(wanted).values()
        told = self._admin.result(asked, f"offsets of group '{group}'").topic_partitions
        return {(place.topic, place.partition): place.offset for place in told if place.offset >= 0}

    def commit(self, group: str, offsets: dict[Place, int]) -> None:
        """Commit offsets of a group that nobody is in."""
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        wanted = [ConsumerGroupTopicPartitions(group, places)]
        (asked,) = self._admin.client.alter_consumer_group_offsets(wanted).values()
        doing = f"committing offsets of group '{group}'"
        for place in self._admin.result(asked, doing).topic_partitions:
            if place.error is not None:
                raise failure_of(place.error, doing)

    def wait_for(self, partitions: Mapping[str, int]) -> Told[Topic]:
        """Until all of so many partitions of new topics have leaders. Raises: Unreachable."""
        deadline = time.monotonic() + TIMEOUT_S
        ready: Told[Topic] = Told({}, {})
        lacking = set(partitions)
        while True:
            seen = self.view(lacking)
            ready.refused.update(seen.refused)
            for topic in seen.of.values():
                if topic.is_led and len(topic.partitions) >= partitions[topic.name]:
                    ready.of[topic.name] = topic
            lacking -= ready.of.keys() | ready.refused.keys()
            if not lacking:
                return ready
            if time.monotonic() > deadline:
                raise Unreachable(f"topic '{min(lacking)}' at the {self.side} has no leaders yet")
            time.sleep(_CHECKED_EVERY_S)


def _told(asked: Iterable[tuple[str, Callable[[], T | None]]]) -> Told[T]:
    told: Told[T] = Told({}, {})
    for name, answer in asked:
        try:
            found = answer()
        except Paused as error:
            told.refused[name] = str(error)
            continue
        if found is not None:
            told.of[name] = found
    return told
