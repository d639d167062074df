"""Schedules of the pipeline: operators set them, a runner asks what is due and tells how it went."""

from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from contracts.pipeline import JobState
from contracts.shapes import matching
from runtime.clock import epoch_ms
from tenants.rules.errors import Conflict, Invalid, NotFound
from tenants.rules.lifecycle import Fault, unfit
from tenants.rules.model import Caller
from tenants.rules.pipeline_schedules import (
    DEFAULTS,
    OF_AN_INSTANCE,
    SCHEDULES_MAX,
    Schedule,
    ScheduledJob,
    fault_of,
    with_last,
)
from tenants.store import audit, instances, pipeline_schedules
from tenants.store.audit import Entry
from tenants.store.engine import Store

NAME_SHAPE: Final = r"^[a-z0-9][a-z0-9-]{0,63}$"
"""What a schedule may be called."""
_NAME: Final = matching(NAME_SHAPE)


class PipelineSchedules:
    """The use cases. Calls block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def every(self) -> list[Schedule]:
        """All, by name."""
        with self._store.read() as connection:
            return pipeline_schedules.every(connection)

    def get(self, name: str) -> Schedule:
        """Raises: NotFound."""
        with self._store.read() as connection:
            return _existing(connection, name)

    def put(
        self,
        caller: Caller,
        name: str,
        job: ScheduledJob,
        instance_id: str | None,
        cron: str,
        *,
        is_paused: bool,
    ) -> Schedule:
        """Make or change one. What was missed before is not made good. Raises: Invalid, Conflict."""
        faults = []
        if _NAME.match(name) is None:
            faults.append(Fault("name", "must be 1 to 64 lower-case letters, digits and '-'"))
        if fault := fault_of(cron):
            faults.append(fault)
        if (job in OF_AN_INSTANCE) != (instance_id is not None):
            is_of = job in OF_AN_INSTANCE
            words = "says which instance this job works on" if is_of else "is not for this job"
            faults.append(Fault("instance_id", words))
        if name in DEFAULTS and job is not DEFAULTS[name].job:
            faults.append(unfit("job", f"of this one is '{DEFAULTS[name].job}'"))
        if faults:
            raise Invalid(faults)
        now_ms = epoch_ms()
        with self._store.write() as connection:
            if instance_id is not None and not _is_there(connection, instance_id):
                raise Invalid([unfit("instance_id", "there is no such instance")])
            found = _found(connection, name)
            if found is None:
                if len(pipeline_schedules.every(connection)) >= SCHEDULES_MAX:
                    raise Conflict(f"there are {SCHEDULES_MAX} schedules, which is as many as there may be")
                after = Schedule(name, job, instance_id, cron, is_paused, now_ms, now_ms, None, None)
                pipeline_schedules.add(connection, after)
            else:
                after = replace(found, job=job, instance_id=instance_id, cron=cron, is_paused=is_paused)
                if after == found:
                    return found
                after = replace(after, since_ms=now_ms)
                pipeline_schedules.save(connection, after)
            _record(connection, caller, "pipeline.schedule", after)
        return after

    def remove(self, caller: Caller, name: str) -> None:
        """Raises: NotFound, Conflict."""
        with self._store.write() as connection:
            found = _existing(connection, name)
            if name in DEFAULTS:
                raise Conflict(f"'{name}' belongs to every deployment: pause it")
            pipeline_schedules.remove(connection, name)
            _record(connection, caller, "pipeline.unschedule", found)

    def ask(self, caller: Caller, name: str) -> Schedule:
        """Have it run as soon as can be, paused or not. Raises: NotFound."""
        with self._store.write() as connection:
            found = _existing(connection, name)
            if found.asked_at_ms is not None:
                return found
            after = replace(found, asked_at_ms=epoch_ms())
            pipeline_schedules.save(connection, after)
            _record(connection, caller, "pipeline.run", after)
        return after

    def tell(self, name: str, due: int, state: JobState, error: str, runner: str) -> Schedule:
        """What a runner says of the run that was due. Raises: NotFound, Conflict."""
        now_ms = epoch_ms()
        with self._store.write() as connection:
            found = _existing(connection, name)
            after = with_last(found, due, state, error.replace("\0", "?"), runner, now_ms)
            if after is None:
                raise Conflict(f"'{name}' is not due, or another runner has it")
            pipeline_schedules.save(connection, after)
        return after


def _is_there(connection: Connection, instance_id: str) -> bool:
    return instance_id.isprintable() and instances.by_id(connection, instance_id) is not None


def _found(connection: Connection, name: str) -> Schedule | None:
    return pipeline_schedules.by_name(connection, name) if _NAME.match(name) else None


def _existing(connection: Connection, name: str) -> Schedule:
    found = _found(connection, name)
    if found is None:
        raise NotFound(f"there is no schedule '{name[:80]}'")
    return found


def _record(connection: Connection, caller: Caller, action: str, schedule: Schedule) -> None:
    words = (schedule.job, schedule.instance_id, schedule.cron, "paused" if schedule.is_paused else None)
    detail = " ".join(word for word in words if word)
    entry = Entry(caller.actor, None, action, schedule.name, detail, caller.address)
    audit.record(connection, entry, epoch_ms())
