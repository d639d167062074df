"""Faults that a tenant injects into its own instance: started, ended, shown, and ended by time (ADR 30)."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.rules.errors import Conflict, Exists, Forbidden, Invalid, NotFound, no_instance
from tenants.rules.fault_orders import FaultOrder, injected, order_faults, summary
from tenants.rules.lifecycle import State
from tenants.rules.model import Caller, Instance
from tenants.store import audit, ceilings, injected_faults, instances
from tenants.store.audit import Entry
from tenants.store.engine import Store, StoreFault
from tenants.store.injected_faults import Recorded
from tenants.store.shared_session import Office
from tenants.usecases.ceilings import Ceilings

_log = get_logger(__name__)
_LOOK_EVERY_S: Final = 1.0
BY_TIME: Final = "system:its time was over"
"""Who has ended a fault that nobody has ended."""


class InjectedFaults:
    """The use cases. `changed` is called after each commit."""

    def __init__(self, store: Store, ceilings: Ceilings, changed: Callable[[], None]) -> None:
        self._store = store
        self._ceilings = ceilings
        self._changed = changed

    def of_instance(self, instance_id: str) -> list[Recorded]:
        """Newest first: those that act and the last that have ended."""
        with self._store.read() as connection:
            return injected_faults.of_instance(connection, instance_id)

    def active(self, tenant: str | None) -> list[tuple[Instance, Recorded]]:
        """Faults of a tenant that act; None: of everybody."""
        with self._store.read() as connection:
            told = injected_faults.told(connection)
            found = instances.by_ids(connection, told)
        return [
            (instance, one)
            for instance in found
            if tenant in (None, instance.tenant) and instance.is_visible
            for one in told[instance.id]
        ]

    def start(self, caller: Caller, instance_id: str, order: FaultOrder) -> Recorded:
        """Raises: Invalid with every fault, Conflict, Forbidden, LimitReached."""
        faults = order_faults(order)
        if faults:
            raise Invalid(faults)
        with self._store.write() as connection:
            instance = _existing(connection, instance_id)
            _check_may_have(instance, order)
            now_ms = epoch_ms()
            fault = injected(order, "f" + secrets.token_hex(6), now_ms)
            wanted = instance.with_(injected_faults=(*instance.injected_faults, fault))
            self._check_allowed(connection, caller, wanted, instance)
            injected_faults.add(connection, instance.id, fault, caller.actor)
            instances.save(connection, wanted, now_ms)
            detail = f"{summary(fault)}, for {order.duration_s} s ({fault.id})"
            audit.record_of(connection, caller, instance, "fault.start", detail, now_ms)
        self._changed()
        return Recorded(instance.id, fault, caller.actor, None, None)

    def _check_allowed(
        self, connection: Connection, caller: Caller, wanted: Instance, before: Instance
    ) -> None:
        """Raises: Forbidden where an operator allows none, LimitReached."""
        of_tenant = ceilings.room_of_tenant(connection, wanted.tenant)
        of_cluster = self._ceilings.room_of_cluster(connection, wanted.cluster_id)
        if not of_tenant.ceilings.faults:
            raise Forbidden(f"an operator does not allow tenant '{wanted.tenant}' to inject faults")
        if not of_cluster.ceilings.faults:
            raise Forbidden(f"an operator does not allow faults on the cluster of '{wanted.name}'")
        self._ceilings.check(connection, caller, wanted, before=before)

    def end(self, caller: Caller, instance_id: str, fault_id: str | None) -> list[Recorded]:
        """End one at once, or with None all; ending what has ended changes nothing.

        Raises: NotFound.
        """
        with self._store.write() as connection:
            instance = _existing(connection, instance_id)
            known = injected_faults.of_instance(connection, instance.id)
            meant = [one for one in known if fault_id in (None, one.fault.id)]
            if fault_id is not None and not meant:
                raise NotFound(f"there is no fault '{fault_id[:80]}' of '{instance.name}'")
            acting = [one for one in meant if one.ended_at_ms is None]
            now_ms = epoch_ms()
            for one in acting:
                injected_faults.end(connection, one.fault.id, caller.actor, now_ms)
                detail = f"{summary(one.fault)} ({one.fault.id})"
                audit.record_of(connection, caller, instance, "fault.end", detail, now_ms)
            if acting:
                instances.save(connection, _existing(connection, instance.id), now_ms)
            ids = {one.fault.id for one in (meant if fault_id is not None else acting)}
            ended = injected_faults.of_instance(connection, instance.id)
        if acting:
            self._changed()
        return [one for one in ended if one.fault.id in ids]

    # --- by themselves ----------------------------------------------------------------------------

    def end_overdue(self, now_ms: int) -> int:
        """Write down what has ended, gateways know; answers how many."""
        with self._store.read() as connection:
            if not injected_faults.overdue(connection, now_ms):
                return 0
        with self._store.write() as connection:
            overdue = injected_faults.overdue(connection, now_ms)
            for one in overdue:
                injected_faults.end(connection, one.fault.id, BY_TIME, one.fault.ends_at_ms)
            for instance in instances.by_ids(connection, {one.instance_id for one in overdue}):
                instances.save(connection, instance, now_ms)
                for one in overdue:
                    if one.instance_id == instance.id:
                        detail = f"{summary(one.fault)} ({one.fault.id}): its time was over"
                        entry = Entry("system", instance.tenant, "fault.end", instance.id, detail)
                        audit.record(connection, entry, now_ms)
        self._changed()
        return len(overdue)

    async def run(self, office: Office) -> None:
        """End what is overdue, for ever: one control process does, who holds the office."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if office.since_ms is None:
                continue
            try:
                await asyncio.to_thread(self.end_overdue, epoch_ms())
            except StoreFault as fault:
                _log.warning("injected faults are not written down as ended", error=fault.reason)


def _existing(connection: Connection, instance_id: str) -> Instance:
    instance = instances.by_id(connection, instance_id)
    if instance is None or not instance.is_visible:
        raise no_instance(instance_id)
    return instance


def _check_may_have(instance: Instance, order: FaultOrder) -> None:
    if instance.id == SYSTEM_INSTANCE_ID:
        raise Conflict("the system instance is Portico's own: no faults are injected there")
    if instance.state is not State.RUNNING:
        raise Conflict(
            f"instance '{instance.name}' is {instance.state.value}: its clients would feel nothing"
        )
    if any(one.kind == order.kind for one in instance.injected_faults):
        raise Exists(f"{order.kind.value} is injected into '{instance.name}' already: end it first")
