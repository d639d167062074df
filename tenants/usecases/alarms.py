"""Alarms: what is raised and why, the rules, and what people do about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from contracts.units import counted
from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.rules.alarms import (
    DEPLOYMENT,
    OF_DEPLOYMENTS,
    OF_INSTANCES,
    Alarm,
    AlarmEvent,
    AlarmKind,
    Handling,
    Rule,
    Step,
    faults_of,
    rule_of,
)
from tenants.rules.errors import Conflict, Invalid, NotFound
from tenants.rules.lifecycle import unfit
from tenants.rules.model import Caller, Instance
from tenants.store import alarms, audit, instances
from tenants.store.alarms import Entry, Kept, Key
from tenants.store.engine import Store, part, sentence
from tenants.store.instances import Place
from tenants.store.shared_session import Office
from tenants.usecases import webhooks

_log = get_logger(__name__)
SILENCE_MS_MAX = 30 * 24 * 3600 * 1000
"""How far ahead an alarm may be silenced: one that is never heard again is a rule to be turned off."""
Rules = Mapping[tuple[str, AlarmKind], Rule]


@dataclass(frozen=True, slots=True)
class Shown:
    """An alarm with its rule, and whose it is."""

    kept: Kept
    rule: Rule
    place: Place | None
    """None: it is the operators' own."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Alarms, and when somebody looked."""

    items: list[Shown]
    looked_at_ms: int | None


class Told(NamedTuple):
    """A line of history, and what its instance is called; None: it is the operators' own."""

    entry: Entry
    name: str | None


class Alarms:
    """The use cases. Calls block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- reading --------------------------------------------------------------------------------

    def of(self, instance: Instance | None) -> Listed:
        """One of each kind of an instance, looked at or not; None: the operators' own, which are there."""
        with self._store.read() as connection:
            scope = DEPLOYMENT if instance is None else instance.id
            own = alarms.rules(connection, scope)
            found = alarms.of_instance(connection, scope)
            place = None if instance is None else _place(instance)
            if instance is not None:
                by_kind = {one.alarm.kind: one for one in found}
                unseen = Handling()
                found = [
                    by_kind.get(kind) or Kept(Alarm(scope, kind, says="not looked at yet"), unseen)
                    for kind in OF_INSTANCES
                ]
            items = [Shown(one, rule_of(one.alarm.kind, scope, own), place) for one in found]
            return Listed(items, alarms.looked_at_ms(connection))

    def raised(self, tenant: str | None, after: Key | None, limit: int) -> Listed:
        """Raised ones of a tenant's instances; None: everybody's, and the operators' own."""
        with self._store.read() as connection:
            places = instances.places(connection)
            found = alarms.raised(connection, tenant, after, limit)
            own = alarms.rules(connection)
            items = [
                Shown(
                    one,
                    rule_of(one.alarm.kind, one.alarm.instance_id, own),
                    places.get(one.alarm.instance_id),
                )
                for one in found
                if one.alarm.instance_id == DEPLOYMENT or one.alarm.instance_id in places
            ]
            return Listed(items, alarms.looked_at_ms(connection))

    def history(self, instance: Instance) -> list[Told]:
        """Newest first."""
        with self._store.read() as connection:
            return [Told(one, instance.name) for one in alarms.history(connection, instance.id)]

    def history_of(self, tenant: str | None) -> list[Told]:
        """Of a tenant's instances; None: of everybody's and the operators' own. The newest, they first."""
        with self._store.read() as connection:
            return [Told(*one) for one in alarms.newest(connection, tenant)]

    def rules(self) -> list[tuple[Rule, bool]]:
        """The operators' rule of each kind, and whether they have set it."""
        with self._store.read() as connection:
            own = alarms.rules(connection, DEPLOYMENT)
        return [(rule_of(kind, DEPLOYMENT, own), (DEPLOYMENT, kind) in own) for kind in AlarmKind]

    def raised_by_kind(self) -> dict[str, int]:
        """How many of each kind are raised."""
        with self._store.glance() as connection:
            return alarms.raised_by_kind(connection)

    # --- rules ----------------------------------------------------------------------------------

    def set_rule(self, caller: Caller, instance: Instance | None, rule: Rule) -> Rule:
        """An instance's own; None: the one for all that have none. Raises: Invalid, NotFound."""
        _check_kind(instance, rule.kind, also_for_all=True)
        if faults := faults_of(rule):
            raise Invalid(faults)
        with self._store.write() as connection:
            _check_there(connection, instance)
            alarms.put_rule(connection, _scope(instance), rule)
            detail = (
                f"{rule.kind} {'on' if rule.enabled else 'off'}: {rule.threshold}, "
                f"{rule.window_minutes} min, raised after {counted(rule.raise_after, 'look')}, "
                f"cleared after {rule.clear_after}"
            )
            _audit(connection, caller, instance, "alarm.rule", detail)
        return rule

    def reset_rule(self, caller: Caller, instance: Instance | None, kind: AlarmKind) -> Rule:
        """The rule above holds again. Raises: NotFound."""
        _check_kind(instance, kind, also_for_all=True)
        with self._store.write() as connection:
            if alarms.remove_rule(connection, _scope(instance), kind):
                _audit(connection, caller, instance, "alarm.rule", f"{kind}: the default again")
            return rule_of(kind, _scope(instance), alarms.rules(connection, _scope(instance)))

    # --- people ---------------------------------------------------------------------------------

    def acknowledge(
        self, caller: Caller, instance: Instance | None, kind: AlarmKind, subject: str = ""
    ) -> Shown:
        """Somebody has seen it. Raises: NotFound, Conflict when it is not raised."""
        now_ms = epoch_ms()
        with self._store.write() as connection:
            kept = _existing(connection, instance, kind, subject)
            if kept.alarm.raised_at_ms is None:
                raise Conflict(f"{kind} is not raised: there is nothing to acknowledge")
            if kept.handling.acked_at_ms is None:
                handling = replace(kept.handling, acked_at_ms=now_ms, acked_by=caller.actor[:160])
                kept = _handle(
                    connection, caller, instance, kept, handling, AlarmEvent.ACKNOWLEDGED, "", now_ms
                )
            return _shown(connection, kept, instance)

    def silence(
        self, caller: Caller, instance: Instance | None, kind: AlarmKind, subject: str, until_ms: int | None
    ) -> Shown:
        """Nobody is told of it until then; None: they are again. It is looked at all the same.

        Raises: NotFound, Invalid.
        """
        now_ms = epoch_ms()
        if until_ms is not None and not now_ms < until_ms <= now_ms + SILENCE_MS_MAX:
            days = SILENCE_MS_MAX // (24 * 3600 * 1000)
            raise Invalid([unfit("until", f"must be a time to come, within {days} days")])
        with self._store.write() as connection:
            kept = _existing(connection, instance, kind, subject)
            by = None if until_ms is None else caller.actor[:160]
            handling = replace(kept.handling, silenced_until_ms=until_ms, silenced_by=by)
            if handling != kept.handling:
                event = AlarmEvent.UNSILENCED if until_ms is None else AlarmEvent.SILENCED
                minutes = 0 if until_ms is None else (until_ms - now_ms + 59_999) // 60_000
                detail = "" if until_ms is None else f"for {minutes} min"
                kept = _handle(connection, caller, instance, kept, handling, event, detail, now_ms)
            return _shown(connection, kept, instance)

    # --- by themselves --------------------------------------------------------------------------

    def known(self) -> tuple[dict[str, Place], Rules, dict[Key, Handling]]:
        """What a look needs: the instances, the rules, and what people did."""
        with self._store.read() as connection:
            return instances.places(connection), alarms.rules(connection), alarms.handled(connection)

    def kept(self) -> dict[Key, Alarm]:
        """All as they were looked at last."""
        with self._store.read() as connection:
            return {one.alarm.key: one.alarm for one in alarms.every(connection)}

    def settle(
        self,
        office: Office,
        steps: Sequence[Step],
        new: frozenset[Key],
        gone: Sequence[Alarm],
        now_ms: int,
    ) -> frozenset[str] | None:
        """Write down what a look led to; None: another process looks now, and nothing was written.

        Else whose could not be written, and are as they were: one instance stops no other.
        """
        with self._store.write() as connection:
            if not office.holds(connection):
                return None
            places = instances.places(connection)
            present = places.keys() | {DEPLOYMENT}
            steps = [one for one in steps if one.alarm.instance_id in present]  # the others went meanwhile
            failed = frozenset[str]()
            if not _is_written(connection, steps, new, gone, places, now_ms):
                owners = {one.alarm.instance_id for one in steps} | {one.instance_id for one in gone}
                failed = frozenset(
                    owner
                    for owner in owners
                    if not _is_written(
                        connection,
                        [one for one in steps if one.alarm.instance_id == owner],
                        new,
                        [one for one in gone if one.instance_id == owner],
                        places,
                        now_ms,
                    )
                )
            alarms.looked(connection, now_ms)
        return failed


FORGOTTEN = "nobody tells of it any more: it is gone"


def _is_written(
    connection: Connection,
    steps: Sequence[Step],
    new: frozenset[Key],
    gone: Sequence[Alarm],
    places: Mapping[str, Place],
    now_ms: int,
) -> bool:
    """All of it, or none: what the database does not take is logged. Raises: StoreFault."""
    try:
        with part(connection):
            _write(connection, steps, new, gone, places, now_ms)
    except (SQLAlchemyError, ValueError) as error:  # a text that no database, or no encoding, takes
        owners = sorted({one.alarm.instance_id for one in steps} | {one.instance_id for one in gone})
        _log.error("alarms are not written down", of=owners[:3], count=len(owners), error=sentence(error))
        return False
    return True


def _write(
    connection: Connection,
    steps: Sequence[Step],
    new: frozenset[Key],
    gone: Sequence[Alarm],
    places: Mapping[str, Place],
    now_ms: int,
) -> None:
    changed = [one.alarm for one in steps]
    alarms.save(
        connection,
        [one for one in changed if one.key in new],
        [one for one in changed if one.key not in new],
    )
    for one in steps:
        if one.event is not None:
            _unacknowledge(connection, one.alarm.key)
    entries = [_entry(one.alarm, one.event, now_ms) for one in steps if one.event is not None]
    cleared = [replace(one, says=FORGOTTEN) for one in gone if one.raised_at_ms is not None]
    entries += [_entry(one, AlarmEvent.CLEARED, now_ms) for one in cleared]
    is_there = places.keys() | {DEPLOYMENT}
    alarms.record(connection, [one for one in entries if one.instance_id in is_there])
    alarms.forget(connection, [one.key for one in gone])
    notices = [(one.alarm, one.notice, places.get(one.alarm.instance_id)) for one in steps if one.notice]
    told = [one for one in cleared if one.is_told]
    deleted = instances.deleted_places(connection, {one.instance_id for one in told} - is_there)
    known = {**deleted, **places}
    notices += [(one, AlarmEvent.CLEARED, known.get(one.instance_id)) for one in told]
    webhooks.tell(connection, notices, now_ms)


def _unacknowledge(connection: Connection, key: Key) -> None:
    """Whoever has seen it has seen what was before."""
    kept = alarms.one(connection, key)
    if kept is not None and kept.handling.acked_at_ms is not None:
        alarms.handle(connection, key, replace(kept.handling, acked_at_ms=None, acked_by=None))


def _entry(alarm: Alarm, event: AlarmEvent, now_ms: int) -> Entry:
    return Entry(now_ms, alarm.instance_id, alarm.kind, alarm.subject, event, alarm.says, None)


def _scope(instance: Instance | None) -> str:
    return DEPLOYMENT if instance is None else instance.id


def _place(instance: Instance) -> Place:
    return Place(instance.tenant, instance.name, instance.cluster_id)


def _check_kind(instance: Instance | None, kind: AlarmKind, *, also_for_all: bool = False) -> None:
    """Raises: NotFound."""
    is_there = kind in OF_INSTANCES if instance is not None else also_for_all or kind in OF_DEPLOYMENTS
    if not is_there:
        whose = "operators" if instance is None else "an instance"
        raise NotFound(f"there is no alarm '{kind}' of {whose}")


def _check_there(connection: Connection, instance: Instance | None) -> None:
    """Raises: NotFound."""
    if instance is not None:
        now = instances.by_id(connection, instance.id)
        if now is None or not now.is_visible:
            raise NotFound(f"instance '{instance.name}' was deleted meanwhile")


def _existing(connection: Connection, instance: Instance | None, kind: AlarmKind, subject: str) -> Kept:
    """Raises: NotFound."""
    _check_kind(instance, kind)
    key = (_scope(instance), kind, subject)
    kept = alarms.one(connection, key) if subject.isprintable() else None
    if kept is None:
        which = f"{kind} {subject[:80]}".strip()
        raise NotFound(f"'{which}' was not looked at yet: there is nothing to acknowledge or silence")
    return kept


def _handle(
    connection: Connection,
    caller: Caller,
    instance: Instance | None,
    kept: Kept,
    handling: Handling,
    event: AlarmEvent,
    detail: str,
    now_ms: int,
) -> Kept:
    alarm = kept.alarm
    alarms.handle(connection, alarm.key, handling)
    entry = Entry(now_ms, alarm.instance_id, alarm.kind, alarm.subject, event, detail, caller.actor[:160])
    alarms.record(connection, [entry])
    said = " ".join(word for word in (alarm.kind, alarm.subject, detail) if word)
    _audit(connection, caller, instance, f"alarm.{event}", said)
    return Kept(alarm, handling)


def _shown(connection: Connection, kept: Kept, instance: Instance | None) -> Shown:
    own = alarms.rules(connection, _scope(instance))
    rule = rule_of(kept.alarm.kind, _scope(instance), own)
    return Shown(kept, rule, None if instance is None else _place(instance))


def _audit(
    connection: Connection, caller: Caller, instance: Instance | None, action: str, detail: str
) -> None:
    now_ms = epoch_ms()
    if instance is not None:
        audit.record_of(connection, caller, instance, action, detail, now_ms)
    else:
        audit.record(
            connection, audit.Entry(caller.actor, None, action, "alarms", detail, caller.address), now_ms
        )
