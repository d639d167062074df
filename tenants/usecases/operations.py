"""Operations as their tenants see them, and the task that ends them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import Connection

from runtime.clock import epoch_ms, monotonic_ms
from tenants.rules import operations as rules
from tenants.rules.acknowledgement import Consumer
from tenants.rules.errors import NotFound
from tenants.rules.model import Caller
from tenants.rules.operations import Followed, Operation, Verdict
from tenants.store import instances, operations
from tenants.store.engine import Store, StoreFault
from tenants.store.shared_session import Office

_EVERY_S: Final = 1.0
Consumers = Callable[[], Iterable[Consumer]]


class Operations:
    """The use cases. All but `run` block."""

    def __init__(self, store: Store, consumers: Consumers, office: Office) -> None:
        self._store = store
        self._consumers = consumers
        self._office = office

    def get(self, caller: Caller, operation_id: str) -> Operation:
        """The operation now. Raises: NotFound, also when it is another tenant's."""
        with self._store.read() as connection:
            found = operations.by_id(connection, operation_id) if operation_id.isalnum() else None
        if found is None or not (caller.is_operator or found.tenant == caller.tenant):
            raise NotFound(f"there is no operation '{operation_id[:80]}'")
        return self._settled([found])[0]

    def page(
        self,
        tenant: str | None,
        instance_id: str | None,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[Operation]:
        """Newest first, as they are now; `tenant` None: everybody's."""
        if instance_id is not None and not instance_id.isprintable():
            return []
        with self._store.read() as connection:
            found = operations.page(connection, tenant, instance_id, before, limit)
        return self._settled(found)

    def of_change(self, instance_id: str, revision: int) -> Operation | None:
        """The operation of a change of an instance; None: nothing was changed."""
        with self._store.read() as connection:
            return operations.of_change(connection, instance_id, revision)

    def reached(self, operation: Operation) -> Followed:
        """How many follow its revision."""
        return rules.followed(operation.revision, self._consumers(), monotonic_ms())

    async def run(self) -> None:
        """End what is over; for ever."""
        while True:
            await asyncio.sleep(_EVERY_S)
            if self._office.since_ms is None:
                continue
            try:
                await asyncio.to_thread(self._settle_all)
            except StoreFault:  # requests tell of it
                continue

    def _settle_all(self) -> None:
        with self._store.read() as connection:
            found = operations.running(connection)
        self._settled(found)

    def _settled(self, found: list[Operation]) -> list[Operation]:
        """The operations; those that are over have ended."""
        running = [one for one in found if one.ended_at_ms is None]
        if not running:
            return found
        with self._store.read() as connection:
            verdicts = self._verdicts(connection, running)
        over = {id_: verdict for id_, verdict in verdicts.items() if verdict.is_over}
        if not over:
            return found
        with self._store.write() as connection:
            now_ms = epoch_ms()
            for operation_id, verdict in over.items():
                operations.end(connection, operation_id, verdict.error, now_ms)
            ended = {one: operations.by_id(connection, one) for one in over}
        return [ended.get(one.id) or one for one in found]

    def _verdicts(self, connection: Connection, running: list[Operation]) -> dict[str, Verdict]:
        now = {one.id: one for one in instances.by_ids(connection, {each.instance_id for each in running})}
        return {
            one.id: rules.judge(one, now[one.instance_id], self.reached(one))
            for one in running
            if one.instance_id in now
        }
