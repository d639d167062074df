"""Clusters as operators keep them: where each is, how it is entered, and whether it takes new instances."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection

from contracts.shapes import HOST_PORT, matching
from contracts.specs import ClusterSpec, Engine
from contracts.units import counted
from contracts.upstream import UpstreamSecurity
from runtime.clock import epoch_ms
from runtime.config import format_host_port, parse_host_port
from tenants.rules.errors import Conflict, Invalid, NotFound
from tenants.rules.lifecycle import Fault
from tenants.rules.model import Caller
from tenants.store import audit, moves, registry
from tenants.store.audit import Entry
from tenants.store.engine import Store

CLUSTERS_MAX: Final = 32
"""Clusters of one stack: each is looked at every two seconds, by the console and by the quota master."""
_ADDRESSES_MAX: Final = 16
NAME_SHAPE: Final = r"^[a-z0-9][a-z0-9-]{0,39}$"
"""What an Apache Kafka may be called."""
BOOTSTRAP_SHAPE: Final = f"^ *{HOST_PORT} *(, *{HOST_PORT} *){{0,{_ADDRESSES_MAX - 1}}}$"
"""How some of its brokers are named."""
_NAME: Final = matching(NAME_SHAPE)
_BOOTSTRAP: Final = matching(BOOTSTRAP_SHAPE)


class Clusters:
    """The use cases. `changed` is called after each commit that followers must hear of."""

    def __init__(self, store: Store, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed

    def put(self, caller: Caller, name: str, bootstrap: str, security: UpstreamSecurity) -> bool:
        """Say where an Apache Kafka is and how it is entered; whether it is a new one. One that was met
        before stays the same cluster, by its id. Raises: Invalid, Conflict."""
        addresses, faults = _addresses(bootstrap)
        faults += [Fault("security", sentence) for sentence in security.faults()]
        if _NAME.match(name) is None:
            faults.append(Fault("name", "must be 1 to 40 lower-case letters, digits and '-'"))
        if faults:
            raise Invalid(faults)
        with self._store.write() as connection:
            found = registry.cluster(connection, name)
            if found is not None and found.engine is not Engine.APACHE:
                raise Conflict(f"cluster '{name}' is of brokers of our own")
            if found is None and len(registry.clusters(connection)) >= CLUSTERS_MAX:
                raise Conflict(f"there are {CLUSTERS_MAX} clusters, which is as many as there may be")
            registry.set_bootstrap(connection, name, addresses, epoch_ms())
            if found is None or found.security != security:
                registry.set_security(connection, name, security, epoch_ms())
            self._record(connection, caller, "cluster.add" if found is None else "cluster.change", name)
        self._changed()
        return found is None

    def drain(self, caller: Caller, name: str, is_drained: bool) -> None:
        """Whether it takes new instances; those that it has stay. Raises: NotFound."""
        with self._store.write() as connection:
            _existing(connection, name)
            registry.set_drained(connection, name, is_drained)
            self._record(connection, caller, "cluster.drain" if is_drained else "cluster.undrain", name)

    def remove(self, caller: Caller, name: str) -> None:
        """Forget a cluster that has nothing of ours. Raises: NotFound, Conflict."""
        with self._store.write() as connection:
            if _existing(connection, name).engine is not Engine.APACHE:
                raise Conflict(f"cluster '{name}' is of brokers of our own, which would register again")
            on_it = registry.occupants(connection, name)
            if on_it:
                raise Conflict(
                    f"{counted(on_it, 'instance')} of cluster '{name}' and their data are there: delete "
                    "them, and wait until they are purged"
                )
            if moves.of_cluster(connection, name):
                raise Conflict(
                    f"an instance moves from or to cluster '{name}', or has an old copy there: see "
                    "portico instance move --status"
                )
            registry.remove_cluster(connection, name, epoch_ms())
            self._record(connection, caller, "cluster.remove", name)
        self._changed()

    def drained(self) -> frozenset[str]:
        """Clusters that take no new instances."""
        with self._store.read() as connection:
            return registry.drained(connection)

    @staticmethod
    def _record(connection: Connection, caller: Caller, action: str, name: str) -> None:
        audit.record(connection, Entry(caller.actor, None, action, name, "", caller.address), epoch_ms())


def _existing(connection: Connection, name: str) -> ClusterSpec:
    found = registry.cluster(connection, name)
    if found is None:
        raise NotFound(f"there is no cluster '{name[:80]}'")
    return found


def _addresses(bootstrap: str) -> tuple[str, list[Fault]]:
    if _BOOTSTRAP.match(bootstrap) is None:
        return "", [Fault("bootstrap", f"must be HOST:PORT,... of 1 to {_ADDRESSES_MAX} brokers")]
    found = [parse_host_port(part.strip(" ")) for part in bootstrap.split(",")]
    return ",".join(format_host_port(*one) for one in found), []
