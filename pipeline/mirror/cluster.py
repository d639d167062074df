"""One side of a mirror as its clients see it: topics, ids, offsets, configs."""

import base64
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from pipeline.errors import PipelineError
from pipeline.ingest.offsets import KafkaSource, probe
from pipeline.mirror.clients import settings
from pipeline.mirror.planning.address import Address
from pipeline.mirror.planning.errors import Paused, Unreachable, failure_of, is_lasting

EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()
_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.02
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})

Place = tuple[str, int]
"""Topic and partition."""
Configs = dict[str, tuple[str | None, bool]]
"""Each config's value, and whether it was set for this topic."""


class Topic(NamedTuple):
    """A topic as it is now."""

    name: str
    topic_id: str
    """The id in Kafka's text form; the name where the cluster has no topic ids."""
    partitions: int
    is_led: bool
    """Whether all partitions have leaders."""


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
        self._fault: Any = None
        wanted = {"error_cb": self._failed, "socket.connection.setup.timeout.ms": 5_000}
        try:
            self._admin: Any = AdminClient(settings(address, wanted))
        except KafkaException as error:
            raise PipelineError(f"--{side}-config: {error.args[0].str()}") from error

    def _failed(self, error: Any) -> None:
        self._fault = error

    def _result(self, future: "Future[Any]", doing: str, *, admits: Iterable[int] = ()) -> Any:
        """What came of a request; None after an error that is admitted."""
        self._fault = None
        while not future.done():
            self._admin.poll(_POLL_S)
            if self._fault is not None and is_lasting(self._fault.code()):
                raise failure_of(self._fault, f"{doing} at the {self.side}")
        try:
            return future.result()
        except KafkaException as error:
            failure = error.args[0]
            if failure.code() in admits:
                return None
            found = failure_of(failure, f"{doing} at the {self.side}")
            if isinstance(found, Unreachable) and failure.code() < 0:
                raise Unreachable(
                    f"the {self.side} at {self.address.bootstrap}: {self._why(found)}"
                ) from error
            raise found from error

    def _why(self, found: Unreachable) -> str:
        reason = probe(KafkaSource(self.address.bootstrap, self.address.config))
        return reason or (str(found) if self._fault is None else str(self._fault.str()))

    def cluster_id(self) -> str:
        """An instance's id, or a Kafka's cluster id."""
        told = self._result(
            self._admin.describe_cluster(request_timeout=_TIMEOUT_S), "asking for the cluster id"
        )
        return str(told.cluster_id or "")

    def names(self) -> list[str]:
        """Of all topics that this client may know of."""
        try:
            return sorted(self._admin.list_topics(timeout=_TIMEOUT_S).topics)
        except KafkaException as error:
            raise failure_of(error.args[0], f"listing topics at the {self.side}") from error

    def view(self, names: Iterable[str]) -> View:
        """These topics, as far as they exist."""
        found, refused = {}, {}
        wanted = list(names)
        if not wanted:
            return View({}, {})
        asked = self._admin.describe_topics(TopicCollection(wanted), request_timeout=_TIMEOUT_S)
        for name, future in asked.items():
            try:
                told = self._result(future, f"topic '{name}'", admits=_ABSENT)
            except Paused as error:
                refused[name] = str(error)
                continue
            if told is not None:
                is_led = all(each.leader is not None and each.leader.id >= 0 for each in told.partitions)
                found[name] = Topic(name, _id_text(told.topic_id, name), len(told.partitions), is_led)
        return View(found, refused)

    def topic(self, name: str) -> Topic | None:
        """One topic, None where it does not exist. Raises: Paused where this client may not use it."""
        view = self.view([name])
        if name in view.refused:
            raise Paused(view.refused[name])
        return view.topics.get(name)

    def offsets(self, places: Iterable[Place], spec: Any, *, committed: bool) -> dict[Place, int]:
        """EARLIEST or LATEST, of what is committed or of everything; without partitions that are gone."""
        wanted = {TopicPartition(*place): spec for place in places}
        if not wanted:
            return {}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_TIMEOUT_S)
        found = {}
        for place, future in asked.items():
            told = self._result(future, f"offsets of {place.topic}-{place.partition}", admits=_ABSENT)
            if told is not None:
                found[place.topic, place.partition] = int(told.offset)
        return found

    def offset(self, place: Place, spec: Any, *, committed: bool) -> int:
        """Of one partition. Raises: Unreachable where it is gone."""
        found = self.offsets([place], spec, committed=committed)
        if place not in found:
            raise Unreachable(f"{place[0]}-{place[1]} of the {self.side} is not there")
        return found[place]

    def configs(self, topic: str) -> Configs:
        """All configs of a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
        entries = self._result(future, f"configs of '{topic}'")
        return {name: (entry.value, not entry.is_default) for name, entry in entries.items()}

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic, unless somebody else did."""
        new = NewTopic(topic, partitions, -1, config=configs)
        (future,) = self._admin.create_topics([new], request_timeout=_TIMEOUT_S).values()
        self._result(future, f"creating topic '{topic}'", admits={KafkaError.TOPIC_ALREADY_EXISTS})

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions."""
        wanted = [NewPartitions(topic, partitions)]
        (future,) = self._admin.create_partitions(wanted, request_timeout=_TIMEOUT_S).values()
        self._result(future, f"adding partitions to '{topic}'")

    def committed(self, group: str) -> dict[Place, int]:
        """What a group has committed."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        (future,) = asked.values()
        told = self._result(future, f"offsets of group '{group}'").topic_partitions
        return {(place.topic, place.partition): place.offset for place in told if place.offset >= 0}

    def commit(self, group: str, offsets: dict[Place, int]) -> None:
        """Commit offsets of a group that nobody is in."""
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(group, places)
        (future,) = self._admin.alter_consumer_group_offsets([request]).values()
        doing = f"committing offsets of group '{group}'"
        for place in self._result(future, doing).topic_partitions:
            if place.error is not None:
                raise failure_of(place.error, doing)

    def wait_for(self, name: str, partitions: int) -> Topic:
        """Until all partitions of a new topic have leaders. Raises: Unreachable."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            found = self.topic(name)
            if found is not None and found.partitions >= partitions and found.is_led:
                return found
            if time.monotonic() > deadline:
                raise Unreachable(f"topic '{name}' at the {self.side} has no leaders yet")
            time.sleep(0.1)


def _id_text(topic_id: Any, name: str) -> str:
    """A topic id in Kafka's form of 22 characters, which has no slashes."""
    if topic_id is None:
        return name
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    data = b"".join((half % 2**64).to_bytes(8) for half in halves)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode() if any(data) else name
