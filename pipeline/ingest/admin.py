"""librdkafka's admin client: topics and offsets, asked for in requests that any gateway takes."""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from wire.request_bounds import pieces

EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()
TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.02
_ASKED_MAX: Final = 2_000
"""Topics or partitions in one request: gateways bound what costs them a turn (docs/security.md)."""
_CHANGED_MAX: Final = 100
"""The same of topics that are made, or whose configs are told."""
_THROTTLED: Final = KafkaError.THROTTLING_QUOTA_EXCEEDED
_THROTTLED_S: Final = 1.0
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""What librdkafka tells of a connection and tries again all the same, until the request's time is over."""
_SETTINGS: Final = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000}

Place = tuple[str, int]
"""Topic and partition."""
Configs = dict[str, tuple[str | None, bool]]
"""Each config's value, and whether it was set for this topic."""


class Topic(NamedTuple):
    """A topic as it is now. One that is deleted and made again has another id."""

    name: str
    id: str
    """In hexadecimal digits, as a path wants it; empty where the cluster has no topic ids."""
    partitions: tuple[int, ...]
    is_led: bool = True
    """Whether all partitions have leaders."""

    @property
    def text_id(self) -> str:
        """Kafka's own form of it, 22 characters without a slash; the name where it has none."""
        return urlsafe_b64encode(bytes.fromhex(self.id)).decode().rstrip("=") or self.name


class Admin:
    """Asks one Kafka. Every method raises what `failure` makes of an error, and of what was being done."""

    def __init__(self, settings: Mapping[str, Any], failure: Callable[[KafkaError, str], Exception]) -> None:
        """Raises: KafkaException where the settings are no good."""
        self._failure = failure
        self.heard: Any = None
        """What was told of a connection while a request waited."""
        self.client: Any = AdminClient(_SETTINGS | dict(settings) | {"error_cb": self._hear})

    def _hear(self, error: KafkaError) -> None:
        self.heard = error

    def result(self, future: "Future[Any]", doing: str, *, admits: Collection[int] = ()) -> Any:
        """What came of a request; None after an error that is admitted."""
        self.heard = None
        while not future.done():
            self.client.poll(_POLL_S)
            if self.heard is not None and self.heard.code() in _HOPELESS:
                raise self._failure(self.heard, doing)
        try:
            return future.result()
        except KafkaException as error:
            if error.args[0].code() in admits:
                return None
            raise self._failure(error.args[0], doing) from error

    def names(self) -> list[str]:
        """Of all topics that this client may know of."""
        try:
            return sorted(self.client.list_topics(timeout=TIMEOUT_S).topics)
        except KafkaException as error:
            raise self._failure(error.args[0], "listing topics") from error

    def topics(self, names: Collection[str]) -> Iterator[tuple[str, Callable[[], Topic | None]]]:
        """Each with what gives it, or None where it does not exist."""
        for some in pieces([*names], _ASKED_MAX):
            asked = self.client.describe_topics(TopicCollection([*some]), request_timeout=TIMEOUT_S)
            for name, future in asked.items():
                yield name, partial(self._topic, name, future)

    def _topic(self, name: str, future: "Future[Any]") -> Topic | None:
        told = self.result(future, f"topic '{name}'", admits=_ABSENT)
        if told is None:
            return None
        topic_id = b"" if told.topic_id is None else urlsafe_b64decode(f"{told.topic_id}==")
        return Topic(
            name,
            topic_id.hex() if any(topic_id) else "",
            tuple(sorted(each.id for each in told.partitions)),
            all(each.leader is not None and each.leader.id >= 0 for each in told.partitions),
        )

    def offsets(
        self, places: Iterable[Place], spec: OffsetSpec, *, committed: bool = True
    ) -> dict[Place, int]:
        """Of what is committed or of everything; without partitions that are gone."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = {}
        for some in pieces([TopicPartition(*place) for place in places], _ASKED_MAX):
            asked = self.client.list_offsets(
                dict.fromkeys(some, spec), isolation_level=isolation, request_timeout=TIMEOUT_S
            )
            for place, future in asked.items():
                doing = f"offsets of {place.topic}-{place.partition}"
                if (told := self.result(future, doing, admits=_ABSENT)) is not None:
                    found[place.topic, place.partition] = int(told.offset)
        return found

    def configs(self, topics: Collection[str]) -> Iterator[tuple[str, Callable[[], Configs]]]:
        """Each with what gives all its configs."""
        for some in pieces([*topics], _CHANGED_MAX):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in some]
            asked = self.client.describe_configs(resources, request_timeout=TIMEOUT_S)
            for resource, future in asked.items():
                yield resource.name, partial(self._configs, resource.name, future)

    def _configs(self, name: str, future: "Future[Any]") -> Configs:
        entries = self.result(future, f"configs of '{name}'")
        return {key: (entry.value, not entry.is_default) for key, entry in entries.items()}

    def create(self, topics: Mapping[str, NewTopic]) -> Iterator[tuple[str, Callable[[], object]]]:
        """Create topics, unless somebody else did; each with what raises where that failed.

        How many a second may be made is the owner's to say: those beyond it are tried again.
        """
        left = [*topics.values()]
        while left:
            some, left = left[:_CHANGED_MAX], left[_CHANGED_MAX:]
            held_up = []
            asked = self.client.create_topics(some, request_timeout=TIMEOUT_S)
            for name, future in asked.items():
                error = future.exception()
                if isinstance(error, KafkaException) and error.args[0].code() == _THROTTLED:
                    held_up.append(topics[name])
                else:
                    doing = f"creating topic '{name}'"
                    yield name, partial(self.result, future, doing, admits={KafkaError.TOPIC_ALREADY_EXISTS})
            if held_up:
                time.sleep(_THROTTLED_S)
                left = held_up + left
