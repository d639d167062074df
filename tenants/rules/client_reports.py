"""What clients of instances told of themselves last (KIP-714), as gateways report it. Pure, in memory: after
a restart each client is known again with its next push."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from sys import intern
from typing import Final, NamedTuple

from contracts.client_metrics import ClientReport, LostClient

CLIENTS_KEPT: Final = 500
"""Clients of one instance that the console shows; one more and the one that was longest silent goes."""
CLIENTS_KEPT_IN_ALL: Final = 20_000
"""Clients of all instances that a control process remembers, some 4 KB each. Beyond, the instance that has
the most gives way."""
KEPT_MS: Final = 3_600_000
"""A client that is silent for so long is forgotten."""
_TOLD_ON_MS: Final = 3_000
"""What came within so long is told to other control processes, which listen once a second."""
_TOLD_ON_MAX: Final = 64
_TOLD_ON_EACH: Final = 16
"""Of one instance: it goes through the database."""
_SWEPT_EVERY_MS: Final = 60_000
_TRAVEL_MS: Final = 1_000
"""By how much reports may differ in the time that they take to come here."""


class Seen(NamedTuple):
    """The last push of a client."""

    seen_ms: int
    """Monotonic."""
    report: ClientReport
    is_lost: bool = False
    """The connection by which it came has ended since."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is expected of the client."""
        return self.is_lost or self.report.is_last


class HeardClient(NamedTuple):
    """For another control process."""

    instance_id: str
    age_ms: int
    report: ClientReport
    is_lost: bool = False


class ClientReports:
    """By instance; each instance's in the order of their last pushes. Units: `now_ms` is monotonic."""

    def __init__(self) -> None:
        self._instances: dict[str, OrderedDict[str, Seen]] = {}
        self._count = 0
        self._ours: OrderedDict[tuple[str, str], int] = OrderedDict()
        """(instance, client) that was reported here lately, and when."""
        self._swept_ms = 0
        self.forgotten = 0
        """Clients that had to make room for others."""

    def receive(
        self, instance_id: str, reports: Iterable[ClientReport], lost: Iterable[LostClient], now_ms: int
    ) -> None:
        """A gateway worker has told, of its clients and of those that it has lost."""
        for report in reports:
            self._take(instance_id, Seen(now_ms - report.age_ms, report))
            self._is_ours(instance_id, report.client_instance_id, now_ms)
        for one in lost:
            seen = self._kept(instance_id).get(one.client_instance_id)
            if seen is not None and seen.seen_ms <= now_ms - one.age_ms + _TRAVEL_MS:
                self._take(instance_id, seen._replace(is_lost=True))
                self._is_ours(instance_id, one.client_instance_id, now_ms)
        while self._ours and next(iter(self._ours.values())) < now_ms - _TOLD_ON_MS:
            self._ours.popitem(last=False)
        if now_ms - self._swept_ms >= _SWEPT_EVERY_MS:
            self._sweep(now_ms)

    def hear(self, heard: Iterable[HeardClient], said_ms: int) -> None:
        """Another control process was told, `age_ms` before `said_ms`."""
        for instance_id, age_ms, report, is_lost in heard:
            self._take(instance_id, Seen(said_ms - age_ms, report, is_lost))

    def told_lately(self, now_ms: int) -> list[HeardClient]:
        """What was reported here lately, the newest of it."""
        found: list[HeardClient] = []
        told: Counter[str] = Counter()
        for (instance_id, client), told_ms in reversed(self._ours.items()):
            if len(found) == _TOLD_ON_MAX or now_ms - told_ms > _TOLD_ON_MS:
                break
            seen = self._kept(instance_id).get(client)
            if seen is not None and told[instance_id] < _TOLD_ON_EACH:
                told[instance_id] += 1
                found.append(HeardClient(instance_id, now_ms - seen.seen_ms, seen.report, seen.is_lost))
        return found

    def clients(self, instance_id: str, now_ms: int) -> list[Seen]:
        """Who told something lately, the newest first."""
        kept = self._kept(instance_id).values()
        return [seen for seen in reversed(kept) if now_ms - seen.seen_ms < KEPT_MS]

    @property
    def count(self) -> int:
        """Clients of all instances."""
        return self._count

    def _kept(self, instance_id: str) -> OrderedDict[str, Seen]:
        return self._instances.get(instance_id) or OrderedDict()

    def _is_ours(self, instance_id: str, client: str, now_ms: int) -> None:
        self._ours[instance_id, client] = now_ms
        self._ours.move_to_end((instance_id, client))

    def _take(self, instance_id: str, seen: Seen) -> None:
        clients = self._instances.setdefault(instance_id, OrderedDict())
        client = seen.report.client_instance_id
        before = clients.get(client)
        if before is not None and not _follows(seen, before):
            return
        if before is None:
            self._count += 1
        clients[client] = seen._replace(report=_shared(seen.report))
        if before is None or seen.seen_ms > before.seen_ms:
            clients.move_to_end(client)
        if len(clients) > CLIENTS_KEPT:
            self._forget(instance_id)
        if self._count > CLIENTS_KEPT_IN_ALL:
            self._forget(max(self._instances, key=lambda each: len(self._instances[each])))

    def _forget(self, instance_id: str) -> None:
        self._instances[instance_id].popitem(last=False)
        self._count -= 1
        self.forgotten += 1

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        for instance_id, clients in list(self._instances.items()):
            silent = [key for key, seen in clients.items() if now_ms - seen.seen_ms >= KEPT_MS]
            for key in silent:
                del clients[key]
            self._count -= len(silent)
            if not clients:
                del self._instances[instance_id]


def _follows(seen: Seen, before: Seen) -> bool:
    """Whether it is what came later. That a client is over is told once, soon after a push that may have
    taken longer to come here."""
    if seen.is_over and not before.is_over:
        return seen.seen_ms > before.seen_ms - _TRAVEL_MS
    return seen.seen_ms > before.seen_ms


def _shared(report: ClientReport) -> ClientReport:
    """The report with one copy of each metric's name for all clients: names are most of it."""
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    values = {intern(name): value for name, value in report.values.items()}
    return ClientReport(**fields | {"values": values})
