"""Where an instance lives: its cluster, and a vport for each of its listeners."""

import errno
import socket
from collections import Counter
from collections.abc import Callable, Container, Iterable
from secrets import SystemRandom
from typing import Final

from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.specs import BrokerAddress, Listener
from tenants.rules import lifecycle
from tenants.rules.errors import Conflict, Unavailable
from tenants.rules.lifecycle import Event, State
from tenants.rules.model import Instance
from tenants.rules.vports import Endpoint, PortsExhausted, VipPool, allocate
from tenants.store import instances, registry

_HOPELESS: Final = (errno.EADDRNOTAVAIL, errno.EACCES, errno.EAFNOSUPPORT)
PORT_IN_USE: Final = "port in use"


def port_is_free(endpoint: Endpoint) -> bool:
    """Bind once without SO_REUSEPORT: with it, another program's sharing listener would go unnoticed.

    Raises: Unavailable when the address cannot be bound at all, on this port or any like it.
    """
    family = socket.AF_INET6 if ":" in endpoint.bind_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(tuple(endpoint))
            probe.listen(1)
        except OSError as error:
            if error.errno in _HOPELESS:
                raise Unavailable(
                    f"{endpoint.bind_host}:{endpoint.port} cannot be bound ({error.strerror}): start with a "
                    "--vip of this machine, or BIND=ADVERTISED behind NAT, and --vports it may use"
                ) from error
            return False
    return True


class Placement:
    """Decides with the vip pool and a probe; called inside write transactions."""

    def __init__(
        self,
        pool: VipPool,
        default_cluster_id: str,
        is_free: Callable[[Endpoint], bool] = port_is_free,
        *,
        reserved: Callable[[], Iterable[Endpoint]] = tuple,
        unreachable: Callable[[], Container[str]] = tuple,
        draw: Callable[[list[str], int], list[str]] = SystemRandom().sample,
    ) -> None:
        """`reserved` are endpoints of instances that may be taken back: nobody else gets them. Nothing new is
        put on `unreachable` clusters. `draw` chooses so many of several."""
        self._unreachable = unreachable
        self._draw = draw
        self._pool = pool
        self._default_cluster_id = default_cluster_id
        self._is_free = is_free
        self._reserved = reserved

    def choose_cluster(self, connection: Connection, fits: Callable[[str], bool]) -> str:
        """Of two drawn clusters the one with fewer instances: not all that look at once choose the same.
        Those with room go before those without, which say what they lack.

        Raises: Conflict when none takes new instances.
        """
        drained = registry.drained(connection)
        with_brokers = [one.cluster_id for one in registry.clusters(connection) if one.brokers]
        if not with_brokers and self._default_cluster_id not in drained:
            return self._default_cluster_id
        takers = [one for one in with_brokers if one not in drained]
        if not takers:
            raise Conflict("no cluster takes new instances: all are drained")
        unreachable = self._unreachable()
        reachable = [one for one in takers if one not in unreachable] or takers
        roomy = [one for one in reachable if fits(one)] or reachable
        load = Counter(one.cluster_id for one in instances.not_purged(connection) if one.is_visible)
        drawn = self._draw(sorted(roomy), min(2, len(roomy)))
        return min(drawn, key=lambda cluster_id: (load[cluster_id], cluster_id))

    def give_listeners(self, connection: Connection, instance: Instance, now_ms: int) -> bool:
        """Give an instance the bootstrap listener and one per broker it lacks, for each way of coming in;
        whether any was lacking.

        Raises: Conflict when no port is free.
        """
        cluster = registry.cluster(connection, instance.cluster_id)
        nodes: list[int | None] = [None]
        nodes += [broker.node_id for broker in cluster.brokers] if cluster else []
        has = {(one.security_protocol, one.node_id) for one in instance.listeners}
        wanted = [(protocol, node_id) for protocol in instance.security_protocols for node_id in nodes]
        missing = [one for one in wanted if one not in has]
        if not missing:
            return False
        known = registry.known_endpoints(connection)
        for endpoint in self._reserved():
            known.setdefault(endpoint, None)
        own = registry.at_rest(connection, instance.tenant)
        is_free = self._probe(known)
        # our own from the end, so that tenants get the ports that people expect
        in_order = self._pool.endpoints(from_end=instance.id == SYSTEM_INSTANCE_ID)
        for protocol, node_id in missing:
            try:
                endpoint = allocate(self._pool, known, now_ms, is_free, own=own, in_order=in_order)
            except PortsExhausted as error:
                raise Conflict(str(error)) from error
            known[endpoint] = None
            own.pop(endpoint, None)
            advertised = self._pool.advertised_for(endpoint.bind_host)
            registry.take_endpoint(
                connection, endpoint, advertised, instance.tenant, instance.id, node_id, protocol
            )
        return True

    def _probe(self, known: Iterable[Endpoint]) -> Callable[[Endpoint], bool]:
        """Whether nobody else listens. A port of a wildcard that was given out before is our gateways': for
        them no address of it is free."""
        if not self._pool.has_wildcard:
            return self._is_free
        ours = {endpoint.port for endpoint in known}
        return lambda endpoint: endpoint.port in ours or self._is_free(endpoint)

    def take_back(self, connection: Connection, instance: Instance, listeners: Iterable[Listener]) -> None:
        """Give an instance the endpoints it had, those that nobody else has been given or uses."""
        known = registry.known_endpoints(connection)
        is_free = self._probe(known)
        for listener in listeners:
            endpoint = Endpoint(listener.bind_host, listener.port)
            if endpoint in known or endpoint not in self._pool or not is_free(endpoint):
                continue
            advertised = self._pool.advertised_for(endpoint.bind_host)
            registry.take_endpoint(
                connection,
                endpoint,
                advertised,
                instance.tenant,
                instance.id,
                listener.node_id,
                listener.security_protocol,
            )

    def register_broker(
        self, connection: Connection, cluster_id: str, address: BrokerAddress, now_ms: int
    ) -> bool:
        """Remember a broker; a new one gets a listener at every instance of its cluster.

        Returns whether anything changed.
        """
        cluster = registry.cluster(connection, cluster_id)
        if cluster is not None and address in cluster.brokers:
            return False
        registry.touch_cluster(connection, cluster_id, now_ms)
        registry.save_broker(connection, cluster_id, address, now_ms)
        of_cluster = instances.of_cluster(connection, cluster_id)
        for instance in sorted(of_cluster, key=lambda one: one.id == SYSTEM_INSTANCE_ID):  # tenants first
            self.extend(connection, instance, now_ms)
        return True

    def extend(self, connection: Connection, instance: Instance, now_ms: int) -> None:
        """Give an instance the listeners it lacks; without a free port it has failed."""
        try:
            if self.give_listeners(connection, instance, now_ms):
                instances.save(connection, instance, now_ms)
        except (Conflict, Unavailable) as error:  # the broker must be told its specs all the same
            failed = instance.with_(state=State.FAILED, state_reason=error.detail)
            instances.save(connection, failed, now_ms)

    def settle_hosts(self, connection: Connection, now_ms: int) -> int:
        """After a start with another vip of one address: move all listeners there, ports kept.

        Returns how many instances changed. Listeners of or from a pool stay where they are.
        """
        bind_hosts = {endpoint.bind_host for endpoint in registry.known_endpoints(connection)}
        if len(self._pool.hosts) != 1 or len(bind_hosts) > 1:
            return 0
        host = self._pool.hosts[0]
        changed = registry.move_host(connection, host, self._pool.advertised_for(host))
        for instance in instances.by_ids(connection, changed):
            instances.save(connection, instance, now_ms)
        return len(changed)

    def withhold_taken_ports(self, connection: Connection, now_ms: int) -> list[Instance]:
        """Fail the instances whose ports somebody else has. Only while no gateway of ours runs.

        Returns those that failed.
        """
        failed = []
        for instance in instances.not_purged(connection):
            if not instance.is_visible:
                continue
            reason = self._trouble(instance)
            if reason is not None:
                state = lifecycle.transition(instance.state, Event.REFUSED) or instance.state
                kept = instance.with_(state=state, state_reason=reason, listeners_withheld=True)
                failed.append(instances.save(connection, kept, now_ms))
        return failed

    def has_to_release(self, connection: Connection) -> bool:
        """Whether some listeners are withheld or lacking."""
        return bool(instances.withheld(connection)) or any(
            instances.lacking_listeners(connection, cluster.cluster_id, len(cluster.brokers) + 1)
            for cluster in registry.clusters(connection)
        )

    def release_freed_ports(self, connection: Connection, now_ms: int) -> int:
        """Publish withheld listeners whose ports are free again, and give those that nobody had a port for.

        Returns of how many instances.
        """
        released = 0
        for instance in instances.withheld(connection):
            if self._trouble(instance) is None:
                self._serve_again(connection, instance, now_ms)
                released += 1
        for cluster in registry.clusters(connection):
            for instance in instances.lacking_listeners(
                connection, cluster.cluster_id, len(cluster.brokers) + 1
            ):
                try:
                    self.give_listeners(connection, instance, now_ms)
                except (Conflict, Unavailable):
                    break  # no port is free yet; the reason stands at the instance
                self._serve_again(connection, instance, now_ms)
                released += 1
        return released

    @staticmethod
    def _serve_again(connection: Connection, instance: Instance, now_ms: int) -> None:
        state = State.CREATING if instance.state is State.FAILED else instance.state
        back = instance.with_(state=state, state_reason=None, listeners_withheld=False)
        instances.save(connection, back, now_ms)

    def _trouble(self, instance: Instance) -> str | None:
        """Why gateways could not bind an instance's listeners, or None."""
        for listener in instance.listeners:
            endpoint = Endpoint(listener.bind_host, listener.port)
            if self._pool.has_wildcard and endpoint in self._pool:
                continue  # no probe tells our gateways from others: theirs to say, and to try again
            try:
                if not self._is_free(endpoint):
                    return f"{PORT_IN_USE}: another program listens on {endpoint.bind_host}:{endpoint.port}"
            except Unavailable as error:
                return error.detail
        return None
