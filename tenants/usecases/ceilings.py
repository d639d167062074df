"""Ceilings of tenants and clusters: what operators set, what is left, and whether an order fits."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from runtime.clock import epoch_ms
from tenants.rules.ceilings import CEILING_MAX, WHAT, Amounts, Room, asked, kept, shown
from tenants.rules.errors import Invalid, LimitReached, NotFound, Stale
from tenants.rules.lifecycle import Fault
from tenants.rules.model import SYSTEM_TENANT, Caller, Instance
from tenants.store import accounts, audit, ceilings, registry
from tenants.store.audit import Entry
from tenants.store.engine import Store


class Standing(NamedTuple):
    """A tenant or cluster, and what an operator has set for it."""

    name: str
    room: Room
    own: dict[str, int]

    @property
    def version(self) -> str:
        """Another one after every change of what is set."""
        return hashlib.sha256(repr(sorted(self.own.items())).encode()).hexdigest()[:16]


class Ceilings:
    """The use cases. `disk_bytes` is the size of the disk that the built-in brokers' data is on, if known."""

    def __init__(self, store: Store, disk_bytes: int | None) -> None:
        self._store = store
        self._disk_bytes = disk_bytes

    # --- orders: inside the transaction that writes them, so that two at once are one after the other --

    def check(
        self, connection: Connection, caller: Caller, wanted: Instance, before: Instance | None = None
    ) -> None:
        """Whether an instance may be had as ordered. `before`: as it is now, for a change; deleted, for one
        that is taken back.

        Raises: LimitReached with every number that is beyond.
        """
        if wanted.tenant == SYSTEM_TENANT:
            return
        asks, has = asked(wanted), None if before is None else _taken(before)
        of_tenant = ceilings.room_of_tenant(connection, wanted.tenant).excesses(asks, has)
        if of_tenant:
            raise LimitReached(f"tenant '{wanted.tenant}'", of_tenant)
        of_cluster = self.room_of_cluster(connection, wanted.cluster_id).excesses(asks, has)
        if of_cluster:
            owner = f"cluster '{wanted.cluster_id}'"
            raise LimitReached(owner, of_cluster, is_told=caller.is_operator)

    def fits(self, connection: Connection, wanted: Instance) -> bool:
        """Whether its cluster has room for a new instance."""
        return not self.room_of_cluster(connection, wanted.cluster_id).excesses(asked(wanted))

    def room_of_cluster(self, connection: Connection, cluster_id: str) -> Room:
        """What a cluster may sell and has sold."""
        return ceilings.room_of_cluster(connection, cluster_id, self._disk_bytes)

    # --- views and settings ----------------------------------------------------------------------------

    def tenant(self, tenant: str) -> Standing:
        """One tenant, which exists."""
        with self._store.read() as connection:
            return self._tenant(connection, tenant)

    def cluster(self, cluster_id: str) -> Standing:
        """One cluster. Raises: NotFound."""
        with self._store.read() as connection:
            return self._cluster(connection, cluster_id)

    def clusters(self) -> list[Standing]:
        """All of them."""
        with self._store.read() as connection:
            return [self._cluster(connection, one.cluster_id) for one in registry.clusters(connection)]

    def set_tenant(
        self,
        caller: Caller,
        tenant: str,
        wanted: Mapping[str, int | None],
        *,
        expected: str | None = None,
    ) -> Standing:
        """Set some ceilings; None: the default again. Lower than what is sold takes nothing away. `expected`:
        the `Standing.version` that the caller has seen.

        Raises: NotFound, Invalid, Stale.
        """
        faults = _faults(wanted)
        if faults:
            raise Invalid(faults)
        with self._store.write() as connection:
            if not accounts.tenant_exists(connection, tenant) or tenant == SYSTEM_TENANT:
                raise NotFound(f"there is no tenant '{tenant[:80]}'")
            _check_seen(self._tenant(connection, tenant), expected)
            own = _merged(ceilings.of_tenant(connection, tenant), wanted)
            ceilings.set_of_tenant(connection, tenant, own)
            entry = Entry(caller.actor, tenant, "tenant.ceilings", tenant, _words(wanted), caller.address)
            audit.record(connection, entry, epoch_ms())
            return self._tenant(connection, tenant)

    def set_cluster(
        self,
        caller: Caller,
        cluster_id: str,
        wanted: Mapping[str, int | None],
        *,
        expected: str | None = None,
    ) -> Standing:
        """Sets the ceilings of a cluster. Raises: NotFound, Invalid, Stale."""
        faults = _faults(wanted)
        if faults:
            raise Invalid(faults)
        with self._store.write() as connection:
            before = self._cluster(connection, cluster_id)
            _check_seen(before, expected)
            own = _merged(before.own, wanted)
            ceilings.set_of_cluster(connection, cluster_id, own)
            entry = Entry(caller.actor, None, "cluster.ceilings", cluster_id, _words(wanted), caller.address)
            audit.record(connection, entry, epoch_ms())
            return self._cluster(connection, cluster_id)

    def _tenant(self, connection: Connection, tenant: str) -> Standing:
        room = ceilings.room_of_tenant(connection, tenant)
        return Standing(tenant, room, ceilings.of_tenant(connection, tenant))

    def _cluster(self, connection: Connection, cluster_id: str) -> Standing:
        if registry.cluster(connection, cluster_id) is None:
            raise NotFound(f"there is no cluster '{cluster_id[:80]}'")
        own = ceilings.of_cluster(connection, cluster_id)
        return Standing(cluster_id, self.room_of_cluster(connection, cluster_id), own)


def _check_seen(now: Standing, expected: str | None) -> None:
    if expected not in (None, now.version):
        raise Stale(f"the ceilings of '{now.name}' have been changed since you read them: read them again")


def _taken(instance: Instance) -> Amounts:
    return asked(instance) if instance.is_visible else kept(instance)


def _faults(wanted: Mapping[str, int | None]) -> list[Fault]:
    faults = [Fault(name, "there is no such ceiling") for name in wanted if name not in WHAT]
    return faults + [
        Fault(name, f"must be between 0 and {shown(name, CEILING_MAX)}")
        for name, value in wanted.items()
        if value is not None and not 0 <= value <= CEILING_MAX
    ]


def _merged(own: Mapping[str, int], wanted: Mapping[str, int | None]) -> dict[str, int]:
    both = {**own, **wanted}
    return {name: value for name, value in both.items() if value is not None}


def _words(wanted: Mapping[str, int | None]) -> str:
    return "; ".join(f"{name}: {'default' if value is None else value}" for name, value in wanted.items())
