"""What the brokers have of a tenant's topics: ids, partitions and offsets, asked for in few requests."""

import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic, OffsetSpec

from pipeline.errors import PipelineError
from pipeline.ingest.admin import EARLIEST, LATEST, Admin, Topic
from pipeline.ingest.ranges import Bounds

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


class UnreachableError(PipelineError):
    """Kafka does not answer, now."""


class RefusedError(UnreachableError):
    """It closes every connection of ours at once."""


class SourceOffsets:
    """Asks one Kafka. Every method raises UnreachableError with a sentence where it does not answer."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source
        settings: dict[str, Any] = {"bootstrap.servers": source.bootstrap, "client.id": "portico-pipeline"}
        self._admin = Admin(settings | dict(source.settings), self._failure)

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
        wanted = self._admin.names() if names is None else dict.fromkeys(names)
        found = {name: told() for name, told in self._admin.topics(wanted)}
        return {name: topic for name, topic in found.items() if topic is not None}

    def ensure(self, names: Iterable[str], partitions: int) -> None:
        """Create topics that are missing."""
        wanted = [*names]
        there = self.topics(wanted)
        lacking = {name: NewTopic(name, partitions, -1) for name in wanted if name not in there}
        for _, must_be_made in self._admin.create(lacking):
            must_be_made()

    def bounds(self, topics: Iterable[Topic]) -> dict[str, dict[int, Bounds]]:
        """Log start and last stable offset of every partition, by topic name; deleted ones are left out."""
        places = _places(topics)
        ends = self._admin.offsets(places, LATEST)
        found: dict[str, dict[int, Bounds]] = {}
        for (name, index), start in self._admin.offsets(places, EARLIEST).items():
            if (end := ends.get((name, index))) is not None:
                # Retention may have moved the start past what was the end a moment ago.
                found.setdefault(name, {})[index] = Bounds(start, max(start, end))
        return found

    def at_time(self, topics: Iterable[Topic], time_ms: int) -> dict[str, dict[int, int]]:
        """The first offset of every partition whose record is not older; its end where there is none."""
        places = _places(topics)
        ends = self._admin.offsets(places, LATEST)
        found: dict[str, dict[int, int]] = {}
        for (name, index), offset in self._admin.offsets(places, OffsetSpec.for_timestamp(time_ms)).items():
            if (end := ends.get((name, index))) is not None:
                found.setdefault(name, {})[index] = end if offset < 0 else min(offset, end)
        return found

    def _failure(self, error: KafkaError, doing: str) -> PipelineError:
        if error.code() in _UNREACHABLE:
            fault = probe(self.source) or f"it answers, but not in time ({error.str()}): try again"
            return UnreachableError(f"Kafka at {self.source.bootstrap}: {fault}")
        return PipelineError(f"Kafka at {self.source.bootstrap}, {doing}: {error.str()}")


def _places(topics: Iterable[Topic]) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


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
