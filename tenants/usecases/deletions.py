"""What is deleted and what is absent: take it back, keep it, or purge it (ADR-0015)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from contracts.names import is_instance_id
from contracts.specs import Deletion, InstanceState
from runtime.clock import epoch_ms
from tenants.credentials import new_id
from tenants.found import Found
from tenants.rules import lifecycle
from tenants.rules.errors import Conflict, Invalid, NotFound, no_instance
from tenants.rules.lifecycle import Event, Fault, State, unfit
from tenants.rules.model import SIZES, SYSTEM_TENANT, TERMS, Caller, Instance
from tenants.store import audit, instances, operations, registry
from tenants.store.engine import Store, feed_position
from tenants.usecases.ceilings import Ceilings
from tenants.usecases.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What an operator says of an absent instance; None: as it was served last."""

    tenant: str
    name: str | None = None
    produce_rate_bytes_per_s: int | None = None
    consume_rate_bytes_per_s: int | None = None
    capacity_bytes: int | None = None


class Deletions:
    """The use cases; `changed` is called after each commit."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        ceilings: Ceilings,
        changed: Callable[[], None],
        *,
        deletion_grace_ms: int,
    ) -> None:
        self._store = store
        self._placement = placement
        self._ceilings = ceilings
        self._changed = changed
        self._deletion_grace_ms = deletion_grace_ms

    # -- deleted ----------------------------------------------------------------------------------------

    def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> list[Instance]:
        """Deleted instances that are not purged yet; `tenant` None: everybody's."""
        with self._store.read() as connection:
            return instances.gone(connection, tenant, after, limit)

    def lineage(self) -> str:
        """The feed that this store writes now."""
        with self._store.read() as connection:
            return feed_position(connection)[0]

    def undelete(self, caller: Caller, tenant: str, reference: str, name: str | None) -> Instance:
        """Bring a deleted instance back: id, topics, vports and offsets as they were.

        Raises: NotFound, Invalid, Conflict when its name is taken or its purge was ordered, LimitReached.
        """
        with self._store.write() as connection:
            gone = _find_gone(connection, caller, tenant, reference)
            wanted = name or gone.name
            _check_name(connection, gone.tenant, wanted)
            after = lifecycle.transition(gone.state, Event.UNDELETE)
            if after is None:
                raise Conflict(
                    f"instance {gone.id} is {gone.state.value}: nothing can be taken back any more"
                )
            back = gone.with_(
                name=wanted,
                state=State.SUSPENDED if gone.was_suspended else after,
                state_reason=None,
                deletion=None,
                was_suspended=False,
            )
            self._ceilings.check(connection, caller, back, before=gone)
            now_ms = epoch_ms()
            instances.save(connection, back, now_ms)
            self._placement.extend(connection, instances.again(connection, back.id), now_ms)
            audit.record_of(connection, caller, back, "instance.undelete", wanted, now_ms)
            saved = _begun(connection, back.id, "instance.undelete", now_ms)
        self._changed()
        return saved

    def purge(self, caller: Caller, reference: str) -> Instance:
        """Remove a deleted instance's data now, whatever is left of its grace. Raises: NotFound, Conflict."""
        with self._store.write() as connection:
            gone = instances.by_id(connection, reference) if is_instance_id(reference) else None
            if gone is None:
                raise no_instance(reference)
            after = lifecycle.transition(gone.state, Event.PURGE)
            if after is None:
                raise Conflict(f"instance {gone.id} is {gone.state.value}: delete it first")
            now_ms = epoch_ms()
            deletion = Deletion(
                deleted_at_ms=now_ms if gone.deletion is None else gone.deletion.deleted_at_ms,
                purge_after_ms=now_ms,
                lineage=feed_position(connection)[0],
                confirmed=True,
            )
            registry.free_endpoints(connection, gone.id, now_ms)
            instances.save(connection, gone.with_(state=after, deletion=deletion), now_ms)
            audit.record_of(connection, caller, gone, "instance.purge", gone.name, now_ms)
            saved = _begun(connection, gone.id, "instance.purge", now_ms)
        self._changed()
        return saved

    # -- absent -----------------------------------------------------------------------------------------

    def states(self, instance_ids: list[str]) -> dict[str, State]:
        """Where the store has these instances; those it does not know are left out."""
        with self._store.read() as connection:
            return instances.states(connection, instance_ids)

    def adopt(self, caller: Caller, found: Found, wanted: Adoption) -> Instance:
        """Make an absent instance anew from what was found of it. Ceilings are for orders, and this one was
        ordered before: none is checked. Raises: Invalid, Conflict, Unavailable."""
        return self._take_in(caller, found, wanted, "instance.adopt", discards=False)

    def discard(self, caller: Caller, found: Found, wanted: Adoption) -> Instance:
        """Delete an absent instance: it is kept for its grace, then purged. Raises: Invalid, Conflict."""
        return self._take_in(caller, found, wanted, "instance.discard", discards=True)

    def _take_in(
        self, caller: Caller, found: Found, wanted: Adoption, action: str, *, discards: bool
    ) -> Instance:
        now_ms = epoch_ms()
        with self._store.write() as connection:
            self._check_absent(connection, found)
            made = _made_of(found, wanted, now_ms, is_discarded=discards)
            if registry.cluster(connection, made.cluster_id) is None:
                raise Conflict(f"no broker of cluster '{made.cluster_id}' has registered here")
            if discards:
                made = made.with_(state=State.DELETED, deletion=self._said_by_hand(connection, now_ms))
            else:
                _check_name(connection, made.tenant, made.name)
            saved = instances.save(connection, made, now_ms, new=True)
            if found.spec is not None:
                self._placement.take_back(connection, saved, found.spec.listeners)
            if not discards:
                self._placement.give_listeners(connection, instances.again(connection, saved.id), now_ms)
            audit.record_of(connection, caller, saved, action, saved.name, now_ms)
            saved = _begun(connection, saved.id, action, now_ms)
        self._changed()
        return saved

    def _check_absent(self, connection: Connection, found: Found) -> None:
        known = instances.by_id(connection, found.instance_id)
        if known is not None and known.is_visible:
            raise Conflict(f"instance {known.id} is not absent: it is {known.state.value}")
        if known is not None:
            raise Conflict(
                f"instance {known.id} is known here as {known.state.value}: "
                "take it back (undelete) or purge what is left of it"
            )

    def _said_by_hand(self, connection: Connection, now_ms: int) -> Deletion:
        return Deletion(
            deleted_at_ms=now_ms,
            purge_after_ms=now_ms + self._deletion_grace_ms,
            lineage=feed_position(connection)[0],
            confirmed=True,
        )


def _made_of(found: Found, wanted: Adoption, now_ms: int, *, is_discarded: bool) -> Instance:
    """The row of a found instance. Raises: Invalid with everything that must still be said."""
    spec = found.spec
    sizes: dict[str, Any] = {
        field: getattr(wanted, field) or (getattr(spec, field) if spec else None) for field in SIZES
    }
    name = wanted.name or (spec.name if spec is not None else None)
    if is_discarded:  # what it bought is of no interest any more
        sizes = {field: value or lifecycle.RATE_MIN_BYTES_PER_S * 10 for field, value in sizes.items()}
        name = name or found.instance_id[1:]
    faults = [
        unfit(field, "nobody knows any more what it was: say it")
        for field, value in (("name", name), *sizes.items())
        if value is None
    ]
    if wanted.tenant == SYSTEM_TENANT:
        faults.append(unfit("tenant", "the system tenant has its one instance"))
    if not faults:
        assert name is not None
        faults = lifecycle.sold_faults(name, *sizes.values())
    if faults:
        raise Invalid(faults)
    cluster_id = found.cluster_id or (spec.cluster_id if spec is not None else "")
    known: dict[str, Any] = {name: getattr(spec, name) for name in TERMS} if spec is not None else {}
    is_suspended = spec is not None and spec.state is InstanceState.SUSPENDED
    return Instance(
        id=found.instance_id,
        tenant=wanted.tenant,
        name=str(name),
        state=State.SUSPENDED if is_suspended else State.CREATING,
        cluster_id=cluster_id,
        was_suspended=is_suspended and is_discarded,
        served_at_ms=now_ms,  # there is data, or somebody remembers having served it
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        **sizes,
        **known,
    )


def _find_gone(connection: Connection, caller: Caller, tenant: str, reference: str) -> Instance:
    """The instance of an id, or of a name that only one deleted one has. Raises: NotFound, Conflict."""
    if is_instance_id(reference):
        found = instances.by_id(connection, reference)
        if (
            found is not None
            and not found.is_visible
            and (caller.is_operator or found.tenant == caller.tenant)
        ):
            return found
        raise NotFound(f"there is no deleted instance '{reference}'")
    named = instances.gone_by_name(connection, tenant, reference)
    if not named:
        raise NotFound(f"there is no deleted instance '{reference[:80]}'")
    if len(named) > 1:
        raise Conflict(
            f"{len(named)} deleted instances were named '{reference}': say which by id, "
            + ", ".join(one.id for one in named)
        )
    return named[0]


def _check_name(connection: Connection, tenant: str, name: str) -> None:
    """Raises: Invalid, Conflict."""
    fault = lifecycle.name_fault(name)
    if fault is not None:
        raise Invalid([Fault("name", fault)])
    if instances.by_name(connection, tenant, name) is not None:
        raise Conflict(f"an instance named '{name}' exists already: give another name (--name)")


def _begun(connection: Connection, instance_id: str, action: str, now_ms: int) -> Instance:
    """The instance as it is now, and the operation that follows what was done to it."""
    saved = instances.again(connection, instance_id)
    operations.begin(connection, new_id("op"), saved, action, now_ms)
    return saved
