"""Series that stay: written a step at a time, packed into blocks, read in spans (docs/adr/0079)."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from runtime.logs import get_logger
from tenants.rules import series as rules
from tenants.rules.alarms import AlarmEvent
from tenants.rules.series import (
    BLOCK_MS,
    COARSE_BLOCK_MS,
    COARSE_KEPT_MS,
    COARSE_STEP_MS,
    FINE_KEPT_MS,
    STEP_MS,
    Block,
    Columns,
    Kind,
    Span,
)
from tenants.store import alarms, audit, schema
from tenants.store import series as rows
from tenants.store.engine import Store, put, setting
from tenants.store.series import Row
from tenants.store.shared_session import Office

_log = get_logger(__name__)
_AT_ONCE: Final = 100
"""Blocks of one transaction: other writers wait meanwhile."""
_COARSE_AT_ONCE: Final = 20
_PAUSE_S: Final = 0.02
"""Between two of them; the thread that packs shares its interpreter with the loops."""
_ENDED_MS: Final = 2 * STEP_MS
"""A block is made when it has ended so long ago."""
_FORGET_AT_ONCE: Final = 4
"""Starts of blocks whose rows are removed at once: all instances have one of each."""
_MARKS_MAX: Final = 200
_SAYS_MAX: Final = 300
_FLEET_ACTIONS: Final = tuple(
    f"instance.{name}" for name in ("create", "change", "delete", "suspend", "resume", "undelete", "purge")
)
_ACTIONS: Final = (*_FLEET_ACTIONS, "fault.start", "fault.end")
_COARSE_UNTIL: Final = "series_coarse_until_ms"


class Read(NamedTuple):
    """Points of one series; times in order."""

    span: Span
    columns: Columns


class Happened(NamedTuple):
    """A mark beside the points."""

    at_ms: int
    kind: str
    says: str


class Series:
    """All series. Calls block and raise StoreFault."""

    def __init__(self, store: Store, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._pause = pause
        self._tail: dict[int, dict[str, bytes]] = {}
        """Steps that may not be in blocks, by time and owner: as read from the database."""
        self._turn = threading.Lock()

    # -- writing, by who holds the office ------------------------------------------------------------

    def keep(self, office: Office, at_ms: int, packed: bytes) -> bool:
        """Write down a step; whether this process may."""
        with self._store.write() as connection:
            if not office.holds(connection):
                return False
            rows.add_step(connection, at_ms, packed)
        return True

    def settle(self, office: Office, now_ms: int) -> None:
        """Make blocks of what has ended, and forget what is long past. A little at a time: what is left is
        done the next time."""
        while (start_ms := self._ended(now_ms)) is not None:
            if not self._fold(office, start_ms):
                return
        if self._coarsen(office, now_ms):
            self._forget(office, now_ms)

    def _ended(self, now_ms: int) -> int | None:
        """The oldest block that is to be made of steps."""
        with self._store.glance() as connection:
            first_ms = rows.first_step_ms(connection)
        if first_ms is None:
            return None
        start_ms = rules.step_of(first_ms, BLOCK_MS)
        return start_ms if start_ms + BLOCK_MS + _ENDED_MS <= now_ms else None

    def _fold(self, office: Office, start_ms: int) -> bool:
        end_ms = start_ms + BLOCK_MS
        with self._store.read() as connection:
            packed = rows.steps(connection, start_ms, end_ms)
        by_owner: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for at_ms, data in packed:
            for owner, figures in _opened_step(data).items():
                by_owner[owner].append((at_ms, figures))
        left = iter(by_owner.items())
        while some := list(islice(left, _AT_ONCE)):
            made = [
                Row(owner, STEP_MS, start_ms, rules.pack_block(found, start_ms, STEP_MS, BLOCK_MS // STEP_MS))
                for owner, steps in some
                if (found := _gathered(steps))
            ]
            if not self._put(office, made):
                return False
        with self._store.write() as connection:
            if not office.holds(connection):
                return False
            rows.forget_steps(connection, end_ms)
        return True

    def _put(self, office: Office, made: list[Row]) -> bool:
        """Write some blocks and let others have the database; whether this process may."""
        with self._store.write() as connection:
            if not office.holds(connection):
                return False
            rows.put_blocks(connection, made)
        self._pause(_PAUSE_S)
        return True

    def _coarsen(self, office: Office, now_ms: int) -> bool:
        """Make the next block of five minutes, if one has ended; whether this process may."""
        with self._store.read() as connection:
            until_ms = int(setting(connection, _COARSE_UNTIL) or 0)
            first_ms = rows.first_block_ms(connection, STEP_MS, until_ms)
            start_ms = None if first_ms is None else rules.step_of(first_ms, COARSE_BLOCK_MS)
            if start_ms is None or start_ms + COARSE_BLOCK_MS + 2 * _ENDED_MS > now_ms:
                return True
            owners = rows.owners(connection, STEP_MS, start_ms, start_ms + COARSE_BLOCK_MS)
        left = iter(owners)
        while some := list(islice(left, _COARSE_AT_ONCE)):
            if not self._put(office, self._coarse(some, start_ms)):
                return False
        with self._store.write() as connection:
            if not office.holds(connection):
                return False
            values = {"value": str(start_ms + COARSE_BLOCK_MS)}
            put(connection, schema.settings, {"key": _COARSE_UNTIL}, values)
        return True

    def _coarse(self, owners: list[str], start_ms: int) -> list[Row]:
        with self._store.read() as connection:
            found = rows.blocks(connection, owners, STEP_MS, start_ms, start_ms + COARSE_BLOCK_MS)
        series: dict[str, dict[Kind, dict[str, Columns]]] = {owner: {} for owner in owners}
        for row in found:
            block = _opened(row)
            for kind, named in block.every().items() if block is not None else ():
                for name, columns in named.items():
                    coarse = rules.merged(kind, columns, COARSE_STEP_MS)
                    series[row.instance_id].setdefault(kind, {}).setdefault(name, {}).update(coarse)
        bounded = {owner: rules.narrowed(kinds) for owner, kinds in series.items()}
        count = COARSE_BLOCK_MS // COARSE_STEP_MS
        return [
            Row(owner, COARSE_STEP_MS, start_ms, rules.pack_block(kinds, start_ms, COARSE_STEP_MS, count))
            for owner, kinds in bounded.items()
        ]

    def _forget(self, office: Office, now_ms: int) -> None:
        with self._store.read() as connection:
            coarse_until_ms = int(setting(connection, _COARSE_UNTIL) or 0)
        for step_ms, before_ms in (
            (STEP_MS, min(now_ms - FINE_KEPT_MS, coarse_until_ms)),
            (COARSE_STEP_MS, now_ms - COARSE_KEPT_MS),
        ):
            for _ in range(_FORGET_AT_ONCE):
                with self._store.write() as connection:
                    first_ms = rows.first_block_ms(connection, step_ms)
                    if first_ms is None or first_ms >= before_ms or not office.holds(connection):
                        break
                    rows.forget_blocks(connection, step_ms, first_ms)
                self._pause(_PAUSE_S)

    # -- reading -------------------------------------------------------------------------------------

    def read(self, owner: str, kind: Kind, name: str, span: Span) -> Read:
        """The points of one series in a span."""
        found: Columns = {}
        for block in self._blocks(owner, span):
            found |= block.columns(kind, name)
        for at_ms, packed in self._steps(owner, span):
            point = _point(packed, kind, name)
            if point is not None:
                found[at_ms] = point
        if span.step_ms > STEP_MS:
            found = rules.merged(kind, dict(sorted(found.items())), span.step_ms)
        first_ms = rules.step_of(span.from_ms, span.step_ms)
        return Read(span, {at_ms: found[at_ms] for at_ms in sorted(found) if first_ms <= at_ms < span.to_ms})

    def names(self, owner: str, kind: Kind, span: Span) -> list[str]:
        """The series of a kind that there are in a span."""
        found: set[str] = set()
        for block in self._blocks(owner, span):
            found.update(block.names(kind))
        for _, packed in self._steps(owner, span):
            found.update(_figures(packed).get(kind.value, {}))
        return sorted(found)

    def marks(self, owner: str, from_ms: int, to_ms: int) -> list[Happened]:
        """What happened to an instance, or (the deployment) to any, and whose alarms; oldest first."""
        subject, actions = (owner, _ACTIONS) if owner else (None, _FLEET_ACTIONS)
        with self._store.read() as connection:
            changes = audit.happened(connection, subject, actions, from_ms, to_ms, _MARKS_MAX)
            entries = alarms.history(connection, owner)
        found = [
            Happened(one.at_ms, one.entry.action, one.entry.detail[:_SAYS_MAX]) for one in reversed(changes)
        ]
        found += [
            Happened(one.at_ms, f"alarm.{one.event}", f"{one.kind}: {one.says}"[:_SAYS_MAX])
            for one in reversed(entries)
            if from_ms <= one.at_ms < to_ms and one.event in (AlarmEvent.RAISED, AlarmEvent.CLEARED)
        ]
        return sorted(found, key=lambda one: one.at_ms)[-_MARKS_MAX:]

    def _blocks(self, owner: str, span: Span) -> Iterable[Block]:
        with self._store.read() as connection:
            fine_from_ms, found = span.from_ms, list[Row]()
            if span.step_ms > STEP_MS:
                coarse_until_ms = int(setting(connection, _COARSE_UNTIL) or 0)
                begins_ms = rules.step_of(span.from_ms, COARSE_BLOCK_MS)
                found = rows.blocks(connection, [owner], COARSE_STEP_MS, begins_ms, span.to_ms)
                fine_from_ms = max(span.from_ms, coarse_until_ms)
            begins_ms = rules.step_of(fine_from_ms, BLOCK_MS)
            found += rows.blocks(connection, [owner], STEP_MS, begins_ms, span.to_ms)
        return [block for row in found if (block := _opened(row)) is not None]

    def _steps(self, owner: str, span: Span) -> list[tuple[int, bytes]]:
        self._read_on()
        tail = self._tail
        first_ms = rules.step_of(span.from_ms, span.step_ms)
        return [
            (at_ms, tail[at_ms][owner])
            for at_ms in sorted(tail)
            if first_ms <= at_ms < span.to_ms and owner in tail[at_ms]
        ]

    def _read_on(self) -> None:
        """Read the steps that were written since."""
        with self._turn:
            newest_ms = max(self._tail, default=0)
            with self._store.glance() as connection:
                found = rows.newest_steps(connection, newest_ms, 2 * BLOCK_MS // STEP_MS)
            if not found:
                return
            tail = {**self._tail, **{at_ms: _opened_step(data) for at_ms, data in found}}
            oldest_ms = max(tail) - 2 * BLOCK_MS
            self._tail = {at_ms: owners for at_ms, owners in tail.items() if at_ms >= oldest_ms}


def _point(packed: bytes, kind: Kind, name: str) -> list[int | None] | None:
    point = _figures(packed).get(kind.value, {}).get(name)
    if point is None:
        return None
    width = len(rules.METRICS[kind])
    return [*point[:width], *[None] * (width - len(point))]


def _figures(packed: bytes) -> dict[str, dict[str, list[int | None]]]:
    try:
        return rules.figures_of(packed)
    except ValueError:
        _log.warning("a step of series is not one of ours: it is left out")
        return {}


def _gathered(steps: list[tuple[int, bytes]]) -> dict[Kind, dict[str, Columns]]:
    try:
        return rules.narrowed(rules.gathered(steps))
    except ValueError:
        _log.warning("steps of series are not ours: they are left out")
        return {}


def _opened_step(data: bytes) -> dict[str, bytes]:
    try:
        return rules.unpack_step(data)
    except ValueError:
        _log.warning("a step of series is not one of ours: it is left out")
        return {}


def _opened(row: Row) -> Block | None:
    try:
        return Block(row.data, row.start_ms, row.step_ms)
    except ValueError:
        _log.warning("a block of series is not one of ours: it is left out", instance=row.instance_id)
        return None
