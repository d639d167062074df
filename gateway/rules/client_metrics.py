"""Client metrics of one instance on one worker (KIP-714, ADR 76). Pure.

What Kafka's broker does: a client instance gets an id, and with it a subscription whose id is made of what is
asked and of the client's id, so that any worker knows it again. It pushes once per interval; what comes too
early, after the last, or by another subscription is refused. Source: KIP-714; `ClientMetricsManager` of
Apache Kafka 4.3.

Besides what the tenant subscribes to, clients are asked for what the console shows, once a minute.
"""

from base64 import urlsafe_b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

import msgspec
from kio.schema.errors import ErrorCode

from contracts.client_metrics import (
    ALL,
    INTERVAL_MS_DEFAULT,
    TEXT_CHARS_MAX,
    ClientReport,
    LostClient,
    MetricsSubscription,
)
from contracts.specs import InstanceSpec
from traffic.flow import Flow
from wire.patterns import compiled_pattern

PUSHED_BYTES_MAX: Final = 256 * 1024
"""One push of client metrics, compressed and decompressed: TELEMETRY_TOO_LARGE beyond. Clients are told."""
READ_BYTES_PER_S: Final = 128 * 1024
"""Of an instance's pushes, decompressed, that a worker reads: those beyond are taken and dropped. Reading one
is a step that nobody can interrupt, up to 10 ms long, so neighbours must not meet it again and again. What
the console asks of a thousand clients comes to less."""
READ_BURST_MS: Final = 4_000
CLIENTS_MAX: Final = 1_000
"""Clients of an instance whose pushes a worker remembers; one more and the one that was longest silent is
forgotten, and may push again early."""
REPORTS_MAX: Final = 64
"""Clients of an instance whose numbers wait on a worker for the next report, which is a second away: those of
others are dropped until their next push. As many that have lost their connections wait besides."""
SHOWN_EVERY_MS: Final = 60_000
"""How often clients push what the console shows, unless the tenant wants it more often."""
_EXPIRES_MS: Final = 60_000
"""A client is forgotten after three intervals of silence, and not before this."""
CODECS: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: what clients may compress with, the preferred first. 0 is none."""
_RESERVED: Final = (0, 1)
"""Ids that are nobody's."""

_PRODUCER: Final = "org.apache.kafka.producer."
_CONSUMER: Final = "org.apache.kafka.consumer."
SHOWN: Final = (
    *(
        _PRODUCER + name
        for name in (
            "connection.creation.total",
            "node.request.latency.",
            "request.latency.",
            "record.queue.time.",
            "produce.throttle.time.",
            "record.retry.total",
            "record.error.total",
            "record.send.total",
        )
    ),
    *(
        _CONSUMER + name
        for name in (
            "connection.creation.total",
            "node.request.latency.",
            "fetch.manager.fetch.latency.",
            "fetch.manager.fetch.throttle.time.",
            "fetch.manager.records.lag.max",
            "fetch.manager.records.consumed.total",
            "poll.idle.ratio.avg",
            "time.between.poll.",
            "last.poll.seconds.ago",
            "coordinator.commit.latency.",
            "coordinator.rebalance.latency.",
            "coordinator.rebalance.total",
            "coordinator.failed.rebalance.total",
            "coordinator.assigned.partitions",
        )
    ),
)
"""Beginnings of the metrics that the console shows."""


class PushTooLarge(Exception):  # noqa: N818 - states what is so
    """A push is more than is looked at."""


class PushUnreadable(Exception):  # noqa: N818 - states what is so
    """It is not what it says it is."""


class Read(NamedTuple):
    """What a push holds."""

    size_bytes: int
    """Decompressed."""
    values: dict[str, float]
    told: dict[str, str]
    """`group_id`, `transactional_id`."""


class Push(NamedTuple):
    """PushTelemetry."""

    client_instance_id: UUID | None
    subscription_id: int
    is_last: bool
    codec: int
    metrics: bytes


class Outcome(StrEnum):
    """What became of a push; its metric label."""

    TAKEN = "taken"
    TOO_EARLY = "too_early"
    UNKNOWN_SUBSCRIPTION = "unknown_subscription"
    UNSUPPORTED_COMPRESSION = "unsupported_compression"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    DROPPED = "dropped"
    """Taken, and not reported: the instance's clients pushed too many at once, or too much."""


_ERRORS: Final = {
    Outcome.TAKEN: ErrorCode.none,
    Outcome.DROPPED: ErrorCode.none,
    Outcome.TOO_EARLY: ErrorCode.throttling_quota_exceeded,
    Outcome.UNKNOWN_SUBSCRIPTION: ErrorCode.unknown_subscription_id,
    Outcome.UNSUPPORTED_COMPRESSION: ErrorCode.unsupported_compression_type,
    Outcome.TOO_LARGE: ErrorCode.telemetry_too_large,
    Outcome.UNREADABLE: ErrorCode.invalid_record,
    Outcome.INVALID: ErrorCode.invalid_request,
}


class Who(NamedTuple):
    """The client, as it calls itself; its address is seen."""

    client_id: str
    software_name: str
    software_version: str
    address: str


class Subscribed(NamedTuple):
    """What one client is asked for."""

    client_instance_id: UUID
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class _Client:
    """One client instance that was heard of."""

    __slots__ = (
        "connection",
        "got_ms",
        "has_asked",
        "is_over",
        "last",
        "pushed_ms",
        "seen_ms",
        "subscribed",
        "version",
    )

    def __init__(self, subscribed: Subscribed, version: int) -> None:
        self.subscribed = subscribed
        self.version = version
        """Of the instance's subscriptions."""
        self.got_ms: int | None = None
        """When it got its subscription, and when its last push was taken."""
        self.pushed_ms: int | None = None
        self.has_asked = True
        """Whether it got a subscription, and has not pushed since then; at another worker, perhaps."""
        self.seen_ms = 0
        self.connection: object = None
        """By which it was heard last; only compared."""
        self.is_over = False
        self.last = Outcome.TAKEN

    def may_get(self, now_ms: int) -> bool:
        """Whether it may ask: once per interval, and when it was told that what it knows is wrong."""
        times = [each for each in (self.got_ms, self.pushed_ms) if each is not None]
        is_early = bool(times) and now_ms - max(times) < self.subscribed.interval_ms
        return not is_early or self.last in (Outcome.UNKNOWN_SUBSCRIPTION, Outcome.UNSUPPORTED_COMPRESSION)

    def gets(self, now_ms: int) -> None:
        """It gets its subscription."""
        self.got_ms, self.has_asked, self.last = now_ms, True, Outcome.TAKEN

    def may_push(self, now_ms: int) -> bool:
        """Whether it may push; then it has. The first push after it has asked comes at any time, because
        clients spread theirs."""
        if not self.has_asked and now_ms - (self.pushed_ms or 0) < self.subscribed.interval_ms:
            return False
        self.pushed_ms, self.has_asked = now_ms, False
        return True

    def is_forgotten(self, now_ms: int) -> bool:
        """Whether it was silent for too long."""
        return now_ms - self.seen_ms >= max(_EXPIRES_MS, 3 * self.subscribed.interval_ms)


class ClientMetrics:
    """Of one instance on one worker. Units: `now_ms` is monotonic."""

    def __init__(
        self,
        draw: Callable[[int], bytes],
        read: Callable[[bytes, int, tuple[str, ...]], Read],
    ) -> None:
        self._draw = draw
        self._read = read
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()
        """In the order in which they were heard of."""
        self._waiting: dict[UUID, tuple[int, ClientReport]] = {}
        """When they came, and what is not reported yet."""
        self._lost: dict[UUID, int] = {}
        """Whose connections have ended, and when they were heard last."""
        self._subscriptions: tuple[MetricsSubscription, ...] = ()
        self._is_on = True
        self._version = 0
        self._reading = Flow(READ_BURST_MS)
        self.pushes: Counter[Outcome] = Counter()
        """What became of them."""

    def apply(self, spec: InstanceSpec) -> None:
        """Take a revision of the instance's spec."""
        if (spec.client_metrics, spec.metric_subscriptions) == (self._is_on, self._subscriptions):
            return
        self._is_on, self._subscriptions = spec.client_metrics, spec.metric_subscriptions
        self._version += 1
        if not self._is_on:
            self._waiting.clear()
            self._lost.clear()

    @property
    def clients(self) -> int:
        """Clients that are remembered."""
        return len(self._clients)

    @property
    def waiting(self) -> int:
        """Clients of whom something waits for a report."""
        return len(self._waiting) + len(self._lost)

    def subscribe(
        self, client_instance_id: UUID | None, who: Who, connection: object, now_ms: int
    ) -> Subscribed | None:
        """What a client is to push; None: it asks too early."""
        if client_instance_id is None:
            client_instance_id = UUID(bytes=self._draw(16), version=4)
        client = self._client(client_instance_id, who, connection, now_ms)
        if not client.may_get(now_ms):
            self.pushes[Outcome.TOO_EARLY] += 1
            return None
        client.gets(now_ms)
        return client.subscribed

    def push(self, push: Push, who: Who, connection: object, now_ms: int) -> ErrorCode:
        """A client has told something."""
        outcome = self._pushed(push, who, connection, now_ms)
        self.pushes[outcome] += 1
        return _ERRORS[outcome]

    def _pushed(self, push: Push, who: Who, connection: object, now_ms: int) -> Outcome:
        if push.client_instance_id is None or push.client_instance_id.int in _RESERVED:
            return Outcome.INVALID
        client = self._client(push.client_instance_id, who, connection, now_ms)
        was_over, client.is_over = client.is_over, push.is_last
        if was_over:
            client.last = Outcome.INVALID
            return client.last
        client.last = self._fault(client, push, now_ms) or self._kept(client, push, who, now_ms)
        return client.last

    @staticmethod
    def _fault(client: _Client, push: Push, now_ms: int) -> Outcome | None:
        if not client.may_push(now_ms) and not push.is_last:
            return Outcome.TOO_EARLY
        if push.subscription_id != client.subscribed.subscription_id:
            return Outcome.UNKNOWN_SUBSCRIPTION
        if push.codec not in (0, *CODECS):
            return Outcome.UNSUPPORTED_COMPRESSION
        return Outcome.TOO_LARGE if len(push.metrics) > PUSHED_BYTES_MAX else None

    def _kept(self, client: _Client, push: Push, who: Who, now_ms: int) -> Outcome:
        client_instance_id, _, metrics, interval_ms = client.subscribed
        if not metrics:
            return Outcome.TAKEN  # nothing was asked for
        if client_instance_id not in self._waiting and len(self._waiting) >= REPORTS_MAX:
            return Outcome.DROPPED
        self._reading.set_rate(READ_BYTES_PER_S, now_ms)
        if self._reading.unmute_at_ms(now_ms) > now_ms:
            return Outcome.DROPPED
        read = Read(0, {}, {})
        size_bytes = PUSHED_BYTES_MAX  # of what cannot be read, too
        try:
            if push.metrics:
                asked = ("",) if ALL in metrics else metrics
                read = self._read(push.metrics, push.codec, asked)
            size_bytes = read.size_bytes
        except PushTooLarge:
            return Outcome.TOO_LARGE
        except PushUnreadable:
            return Outcome.UNREADABLE
        finally:
            self._reading.charge(size_bytes, now_ms)
        self._waiting[client_instance_id] = (
            now_ms,
            ClientReport(
                client_instance_id=kafkas_text(client_instance_id),
                age_ms=0,
                push_interval_ms=interval_ms,
                is_last=push.is_last,
                values=read.values,
                **who._asdict(),
                **read.told,
            ),
        )
        return Outcome.TAKEN

    def disconnected(self, client_instance_id: UUID, connection: object) -> None:
        """Its connection has ended: it begins anew, as at a broker of Kafka, unless another is its last."""
        client = self._clients.get(client_instance_id)
        if client is None or client.connection is not connection:
            return
        del self._clients[client_instance_id]
        if self._is_on and not client.is_over and len(self._lost) < REPORTS_MAX:
            self._lost[client_instance_id] = client.seen_ms

    def take_reports(self, most: int, now_ms: int) -> tuple[ClientReport, ...]:
        """What is not reported yet, the oldest first; it is forgotten here."""
        taken = []
        for client_instance_id in list(self._waiting)[:most]:
            came_ms, report = self._waiting.pop(client_instance_id)
            taken.append(msgspec.structs.replace(report, age_ms=now_ms - came_ms))
        return tuple(taken)

    def take_lost(self, most: int, now_ms: int) -> tuple[LostClient, ...]:
        """Whose connections have ended, but for those whose last pushes are not reported yet."""
        taken = [each for each in self._lost if each not in self._waiting][:most]
        return tuple(
            LostClient(client_instance_id=kafkas_text(each), age_ms=now_ms - self._lost.pop(each))
            for each in taken
        )

    def _client(self, client_instance_id: UUID, who: Who, connection: object, now_ms: int) -> _Client:
        self._lost.pop(client_instance_id, None)
        clients = self._clients
        while clients and next(iter(clients.values())).is_forgotten(now_ms):
            clients.popitem(last=False)
        client = clients.get(client_instance_id)
        if client is None or client.version != self._version:
            client = clients[client_instance_id] = _Client(
                self._subscribed(client_instance_id, who), self._version
            )
        client.seen_ms, client.connection = now_ms, connection
        clients.move_to_end(client_instance_id)
        while len(clients) > CLIENTS_MAX:
            clients.popitem(last=False)
        return client

    def _subscribed(self, client_instance_id: UUID, who: Who) -> Subscribed:
        asked = set(SHOWN if self._is_on else ())
        interval_ms = SHOWN_EVERY_MS if self._is_on else INTERVAL_MS_DEFAULT
        for one in self._subscriptions if self._is_on else ():
            if _is_meant(one, client_instance_id, who):
                asked.update(one.metrics or ())
                interval_ms = min(interval_ms, one.interval_ms or INTERVAL_MS_DEFAULT)
        metrics = (ALL,) if ALL in asked else tuple(sorted(asked))
        return Subscribed(
            client_instance_id,
            _subscription_id(client_instance_id, metrics, interval_ms),
            metrics,
            interval_ms,
        )


def _is_meant(one: MetricsSubscription, client_instance_id: UUID, who: Who) -> bool:
    """Whether every pattern is the whole of what it is about."""
    seen = {
        "client_instance_id": kafkas_text(client_instance_id),
        "client_id": who.client_id,
        "client_software_name": who.software_name,
        "client_software_version": who.software_version,
        "client_source_address": who.address,
    }
    compiled = ((compiled_pattern(pattern), seen[key]) for key, pattern in one.matches.items())
    return all(fullmatch is not None and fullmatch(value) for fullmatch, value in compiled)


def _subscription_id(client_instance_id: UUID, metrics: Sequence[str], interval_ms: int) -> int:
    """The same on every worker, another one when anything else is asked."""
    number = crc32(f"{interval_ms} {' '.join(metrics)}".encode()) ^ crc32(client_instance_id.bytes)
    return number - (1 << 32 if number >= 1 << 31 else 0)


def kafkas_text(client_instance_id: UUID) -> str:
    """An id as Kafka's clients print it."""
    return urlsafe_b64encode(client_instance_id.bytes).decode().rstrip("=")


def cut(text: str | None) -> str:
    """What a client says of itself, as far as it is kept."""
    return (text or "")[:TEXT_CHARS_MAX]
