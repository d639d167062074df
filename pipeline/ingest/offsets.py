"""What the brokers have of a tenant's topics: ids, partitions and offsets, asked for in few requests."""

import socket
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.errors import PipelineError
from pipeline.ingest.ranges import Bounds

K = TypeVar("K")
V = TypeVar("V")
_TIMEOUT_S: Final = 30.0
_PROBE_TIMEOUT_S: Final = 5.0
_PATIENCE_S: Final = 5.0
"""A gateway that is being started again is back by then."""
_RETRY_S: Final = 0.2
_CLOSED: Final = (
    "the connection is closed at once: is this machine on the instance's whitelist, and the instance running?"
)
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_UNREACHABLE: Final = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)


class KafkaSource(NamedTuple):
    """How a tenant's client reaches its Kafka."""

    bootstrap: str
    """`host:port`, several with commas: an instance's vip:vport."""
    settings: Mapping[str, str] = {}
    """More client settings by names that librdkafka and the Java client share: `security.protocol` ..."""


class Topic(NamedTuple):
    """A topic as it is now. One that is deleted and made again has another id."""

    name: str
    id: str
    """In hexadecimal digits, as a path wants it; Kafka's own text is base64."""
    partitions: tuple[int, ...]


class UnreachableError(PipelineError):
    """Kafka does not answer, now."""


class RefusedError(UnreachableError):
    """It closes every connection of ours at once."""


class SourceOffsets:
    """Asks one Kafka. Every method raises UnreachableError with a sentence where it does not answer."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source
        settings: dict[str, Any] = {
            "bootstrap.servers": source.bootstrap,
            "client.id": "portico-pipeline",
            "log_level": 0,  # failures are told by exceptions
            "socket.connection.setup.timeout.ms": 5000,
        }
        self._admin = AdminClient(settings | dict(source.settings))

    def must_answer(self) -> None:
        """Look before a client tries again and again. Raises: RefusedError, UnreachableError."""
        deadline = time.monotonic() + _PATIENCE_S
        while (fault := probe(self.source)) is not None:
            if fault == _CLOSED:
                raise RefusedError(f"Kafka at {self.source.bootstrap}: {fault}")
            if time.monotonic() > deadline:
                raise UnreachableError(f"Kafka at {self.source.bootstrap}: {fault}")
            time.sleep(_RETRY_S)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """These topics, or all, by name; those that do not exist are left out."""
        if names is None:
            names = sorted(self._call(self._admin.list_topics, timeout=_TIMEOUT_S).topics)
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        futures = self._call(self._admin.describe_topics, TopicCollection(wanted))
        return {
            name: Topic(
                name,
                urlsafe_b64decode(f"{told.topic_id}==").hex(),
                tuple(sorted(one.id for one in told.partitions)),
            )
            for name, told in self._answers(futures)
        }

    def bounds(self, topics: Iterable[Topic]) -> dict[str, dict[int, Bounds]]:
        """Log start and last stable offset of every partition, by topic name; deleted ones are left out."""
        places = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        earliest = self._offsets(places, OffsetSpec.earliest())
        ends = self._offsets(places, OffsetSpec.latest())
        found: dict[str, dict[int, Bounds]] = {}
        for (name, index), start in earliest.items():
            if (end := ends.get((name, index))) is not None:
                # Retention may have moved the start past what was the end a moment later.
                found.setdefault(name, {})[index] = Bounds(start, max(start, end))
        return found

    def at_time(self, topics: Iterable[Topic], time_ms: int) -> dict[str, dict[int, int]]:
        """The first offset of every partition whose record is not older; its end where there is none."""
        places = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        ends = self._offsets(places, OffsetSpec.latest())
        found: dict[str, dict[int, int]] = {}
        for (name, index), offset in self._offsets(places, OffsetSpec.for_timestamp(time_ms)).items():
            if (end := ends.get((name, index))) is not None:
                found.setdefault(name, {})[index] = end if offset < 0 else min(offset, end)
        return found

    def _offsets(self, places: list[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        if not places:
            return {}
        futures = self._call(
            self._admin.list_offsets,
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        answers = self._answers(futures, lambda place: f"{place.topic}-{place.partition}")
        return {(place.topic, place.partition): int(told.offset) for place, told in answers}

    def _answers(
        self, futures: Mapping[K, Future[V]], place: Callable[[K], str] = lambda _: ""
    ) -> Iterator[tuple[K, V]]:
        """What came of each question; of topics that do not exist, nothing."""
        for asked, future in futures.items():
            try:
                yield asked, future.result(_TIMEOUT_S)
            except TimeoutError as error:
                raise self._silent() from error
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._unanswered(error, place(asked)) from error

    def _call(self, method: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except KafkaException as error:
            raise self._unanswered(error) from error

    def _silent(self) -> UnreachableError:
        fault = probe(self.source) or f"it answers, but not within {_TIMEOUT_S:.0f} s: try again"
        return UnreachableError(f"Kafka at {self.source.bootstrap}: {fault}")

    def _unanswered(self, error: KafkaException, subject: str = "") -> PipelineError:
        failure = error.args[0]
        if failure.code() in _UNREACHABLE:
            fault = probe(self.source) or f"it answers, but not in time ({failure.str()}): try again"
            return UnreachableError(f"Kafka at {self.source.bootstrap}: {fault}")
        where = f"{self.source.bootstrap}, {subject}" if subject else self.source.bootstrap
        return PipelineError(f"Kafka at {where}: {failure.str()}")


def probe(source: KafkaSource) -> str | None:
    """Why no client gets an answer there, for people; None where one of the addresses answers."""
    faults = [_fault(address, source.settings) for address in source.bootstrap.split(",")]
    return None if None in faults else faults[0]


def _fault(address: str, settings: Mapping[str, str]) -> str | None:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PROBE_TIMEOUT_S) as connection:
            if "SSL" in settings.get("security.protocol", ""):
                return None  # the handshake is the client's
            connection.settimeout(_PROBE_TIMEOUT_S)
            connection.sendall(_API_VERSIONS)
            return None if connection.recv(1) else _CLOSED
    except (ConnectionResetError, BrokenPipeError):
        return _CLOSED
    except (OSError, ValueError) as error:
        return f"no connection ({error}): is the instance running, and is this its address?"
