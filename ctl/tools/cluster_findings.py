"""What is wrong with a cluster, from what its brokers and its metadata say. Pure.

Partitions in the same trouble for the same reason are one finding, so that a dead broker is one line and not
a thousand.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from contracts.units import counted
from ctl.tools.findings import Finding
from ctl.tools.partitions import PartitionRow
from ctl.tools.transactions import Hanging

_NAMED_MAX: Final = 3
_IMBALANCE_PERCENT: Final = 10
_SKEW_MS_MAX: Final = 1_000
_SLOW_SESSION_MS: Final = 500
_FREE_SHARE_MIN: Final = 0.05


class BrokerFacts(NamedTuple):
    """What one registered broker says."""

    broker: int
    controller_id: int | None
    """Whom it takes for the controller; None: it does not answer."""
    answer_ms: float = 0
    failure: str = ""
    failed_directories: tuple[str, ...] = ()
    clock_skew_ms: int | None = None
    free_share: float | None = None
    """Free part of the disk its log directory is on, where that is on this machine."""


def broker_findings(expected: Collection[int], facts: Collection[BrokerFacts]) -> Iterator[Finding]:
    """Who is missing, silent, of another opinion, or short of something."""
    registered = {one.broker for one in facts}
    for broker in sorted(set(expected) - registered):
        yield Finding(
            "bad",
            f"broker {broker}",
            "not registered",
            f"is it running, and does it reach ZooKeeper? See logs/broker-{broker}.log",
        )
    for one in sorted(facts):
        yield from _broker(one)
    opinions = {one.controller_id for one in facts if one.controller_id is not None}
    known = opinions & registered
    if len(opinions) == 1 and known:
        yield Finding("ok", "controller", f"broker {opinions.pop()}")
    elif not known:
        yield Finding(
            "bad",
            "controller",
            "there is none",
            "topics and leaders cannot change; see ZooKeeper's state below",
        )
    else:
        said = ", ".join(f"broker {one.broker} says {one.controller_id}" for one in sorted(facts))
        yield Finding("warn", "controller", said, "an election may be under way: look again in a few seconds")


def _broker(one: BrokerFacts) -> Iterator[Finding]:
    subject = f"broker {one.broker}"
    if one.controller_id is None:
        yield Finding(
            "bad",
            subject,
            f"registered, but does not answer: {one.failure}",
            "is it overloaded or stopped (SIGSTOP)?",
        )
        return
    yield Finding("ok", subject, f"answers in {one.answer_ms:.0f} ms")
    for directory in one.failed_directories:
        yield Finding(
            "bad",
            subject,
            f"log directory {directory} has failed",
            "replace the disk and start the broker again",
        )
    if one.clock_skew_ms is not None and abs(one.clock_skew_ms) > _SKEW_MS_MAX:
        way = "ahead" if one.clock_skew_ms > 0 else "behind"
        yield Finding(
            "warn",
            subject,
            f"its clock is {abs(one.clock_skew_ms) / 1000:.1f} s {way}",
            "run NTP: retention and timestamps go by clocks",
        )
    if one.free_share is not None and one.free_share < _FREE_SHARE_MIN:
        yield Finding(
            "bad",
            subject,
            f"{one.free_share:.0%} of its disk is free",
            "delete topics, shorten retention or add space: a full disk takes the directory offline",
        )


def partition_findings(
    rows: Collection[PartitionRow], live: Collection[int], min_isr: Mapping[str, int]
) -> Iterator[Finding]:
    """Partitions without leader, with replicas out of sync, and those that refuse acks=all."""
    offline = [row for row in rows if row.is_unavailable]
    lost = "start those brokers; if all are gone for good, unclean.leader.election.enable takes what is left"
    yield from _by_cause("bad", "without a leader", offline, live, lost)
    below = [row for row in rows if not row.is_unavailable and len(row.isr) < min_isr.get(row.topic, 1)]
    few = "with fewer replicas in sync than min.insync.replicas (acks=all is refused)"
    yield from _by_cause("bad", few, below, live, "bring the missing brokers back")
    others = [row for row in rows if row.is_under_replicated and row not in offline and row not in below]
    yield from _by_cause("warn", "under-replicated", others, live, "it heals by itself once they are back")
    if not (offline or below or others):
        yield Finding("ok", "partitions", f"{len(rows)}, every replica is in sync")
    yield from _alone(rows, live)
    yield from _imbalance(rows, live)


def _by_cause(
    level: str, what: str, rows: Iterable[PartitionRow], live: Collection[int], advice: str
) -> Iterator[Finding]:
    causes: dict[str, list[str]] = {}
    for row in rows:
        causes.setdefault(_cause(row, live), []).append(row.name)
    for cause, names in sorted(causes.items()):
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        found = f"{len(names)} {what}: {', '.join(names[:_NAMED_MAX])}{more}; {cause}"
        yield Finding(level, "partitions", found, advice)


def _cause(row: PartitionRow, live: Collection[int]) -> str:
    missing = [broker for broker in row.replicas if broker not in row.isr or row.is_unavailable]
    gone = [broker for broker in missing if broker not in live]
    failed = [broker for broker in missing if broker in live and broker in row.offline]
    behind = [broker for broker in missing if broker in live and broker not in row.offline]
    parts = []
    for brokers, text in (
        (gone, "not running"),
        (failed, "with a failed log directory"),
        (behind, "behind" if not row.is_unavailable else "not in sync, so not electable"),
    ):
        if brokers:
            parts.append(f"broker {', '.join(map(str, brokers))} {text}")
    return "; ".join(parts) or "the controller has not elected one yet"


def _alone(rows: Collection[PartitionRow], live: Collection[int]) -> Iterator[Finding]:
    alone = [row.name for row in rows if len(row.replicas) == 1]
    if alone and len(live) > 1:
        more = f" and {len(alone) - _NAMED_MAX} more" if len(alone) > _NAMED_MAX else ""
        yield Finding(
            "warn",
            "partitions",
            f"{len(alone)} with a single replica: {', '.join(alone[:_NAMED_MAX])}{more}; they are "
            "away whenever their broker is",
            f"`portico reassign generate --replication-factor {min(3, len(live))}`, then `execute`",
        )


def _imbalance(rows: Collection[PartitionRow], live: Collection[int]) -> Iterator[Finding]:
    electable = [row for row in rows if row.replicas and row.replicas[0] in live and not row.is_unavailable]
    others = [row for row in electable if not row.is_led_by_preferred]
    if electable and 100 * len(others) > _IMBALANCE_PERCENT * len(electable):
        found = f"{len(others)} of {len(electable)} partitions are not led by their first replica"
        yield Finding("warn", "leaders", found, "`portico leader elect-preferred --all` spreads them again")


class ZooKeeperFacts(NamedTuple):
    """What was seen of ZooKeeper from here."""

    address: str
    failure: str | None
    session_ms: float = 0
    """To open a session."""
    read_ms: float = 0
    unclean: tuple[int, ...] = ()
    """Brokers whose last end lost the page cache."""


def zookeeper_findings(facts: ZooKeeperFacts) -> Iterator[Finding]:
    """Whether it answers, how fast, and what registrations tell of unclean ends."""
    if facts.failure is not None:
        yield Finding(
            "bad",
            "zookeeper",
            f"{facts.address} does not answer: {facts.failure}",
            "brokers serve on, but no leader can change until it is back",
        )
        return
    slow = facts.session_ms > _SLOW_SESSION_MS or facts.read_ms > _SLOW_SESSION_MS
    yield Finding(
        "warn" if slow else "ok",
        "zookeeper",
        f"{facts.address}: a session opens in {facts.session_ms:.0f} ms, a read takes {facts.read_ms:.1f} ms",
        "brokers may lose their sessions: give it its own disk, or raise the session timeout" if slow else "",
    )
    for broker in facts.unclean:
        yield Finding(
            "warn",
            f"broker {broker}",
            "its machine ended without a clean shutdown: it left every ISR that had another member",
            "it comes back by itself; check that its partitions are in sync before restarting others",
        )


def transaction_findings(hanging: Iterable[Hanging]) -> Iterator[Finding]:
    """Transactions that hold back read_committed readers for good."""
    for one in hanging:
        where = f"{one.transaction.topic}-{one.transaction.partition}"
        yield Finding(
            "bad",
            "transactions",
            f"one hangs on {where} from offset {one.transaction.start_offset} on: {one.reason}",
            "`portico txn abort` ends it; read_committed consumers stand still until then",
        )


def reassignment_findings(moving: int) -> Iterator[Finding]:
    """Moves that are under way."""
    if moving:
        found = f"{counted(moving, 'partition')} being moved"
        yield Finding("ok", "reassignments", found, "`portico reassign verify PLAN` says how far they are")
