"""One side of a mirror as its clients see it: topics, ids, offsets, configs."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, NewPartitions, OffsetSpec, ResourceType

from pipeline.errors import PipelineError
from pipeline.ingest.admin import TIMEOUT_S, Admin, Place, Topic
from pipeline.ingest.offsets import KafkaSource, probe
from pipeline.mirror.clients import settings
from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.errors import Paused, Unreachable, failure_of

Configs = dict[str, tuple[str | None, bool]]
"""Each config's value, and whether it was set for this topic."""


class View(NamedTuple):
    """Topics that were asked for, as far as they exist."""

    topics: dict[str, Topic]
    refused: dict[str, str]
    """Why this client does not get to know of a topic."""


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

    def view(self, names: Iterable[str]) -> View:
        """These topics, as far as they exist."""
        found, refused = {}, {}
        for name, told in self._admin.topics([*names]):
            try:
                topic = told()
            except Paused as error:
                refused[name] = str(error)
                continue
            if topic is not None:
                found[name] = topic
        return View(found, refused)

    def topic(self, name: str) -> Topic | None:
        """One topic, None where it does not exist. Raises: Paused where this client may not use it."""
        view = self.view([name])
        if name in view.refused:
            raise Paused(view.refused[name])
        return view.topics.get(name)

    def offsets(self, places: Iterable[Place], spec: OffsetSpec, *, committed: bool) -> dict[Place, int]:
        """EARLIEST or LATEST, of what is committed or of everything; without partitions that are gone."""
        return self._admin.offsets(places, spec, committed=committed)

    def offset(self, place: Place, spec: OffsetSpec, *, committed: bool) -> int:
        """Of one partition. Raises: Unreachable where it is gone."""
        found = self.offsets([place], spec, committed=committed)
        if place not in found:
            raise Unreachable(f"{place[0]}-{place[1]} of the {self.side} is not there")
        return found[place]

    def configs(self, topic: str) -> Configs:
        """All configs of a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (asked,) = self._admin.client.describe_configs([resource], request_timeout=TIMEOUT_S).values()
        entries = self._admin.result(asked, f"configs of '{topic}'")
        return {name: (entry.value, not entry.is_default) for name, entry in entries.items()}

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic, unless somebody else did."""
        self._admin.create(topic, partitions, configs)

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

    def wait_for(self, name: str, partitions: int) -> Topic:
        """Until all partitions of a new topic have leaders. Raises: Unreachable."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = self.topic(name)
            if found is not None and len(found.partitions) >= partitions and found.is_led:
                return found
            if time.monotonic() > deadline:
                raise Unreachable(f"topic '{name}' at the {self.side} has no leaders yet")
            time.sleep(0.1)
