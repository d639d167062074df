"""Clusters, brokers, and the vports given to listeners."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, select, update

from contracts.specs import BrokerAddress, ClusterSpec, Engine
from contracts.upstream import UpstreamSecurity
from contracts.users import SecurityProtocol
from tenants.rules.lifecycle import State
from tenants.rules.vports import Endpoint
from tenants.store import schema
from tenants.store.engine import next_revision, put
from tenants.store.instances import GONE, OUTBOX_CLUSTER, append_outbox


def clusters(connection: Connection, *, also_removed: bool = False) -> list[ClusterSpec]:
    """Every cluster with its brokers, in order of id."""
    nodes: dict[str, list[BrokerAddress]] = {}
    table = schema.brokers
    for row in connection.execute(select(table).order_by(table.c.node_id)).mappings():
        address = BrokerAddress(node_id=row["node_id"], host=row["host"], port=row["port"])
        nodes.setdefault(row["cluster_id"], []).append(address)
    rows = connection.execute(select(schema.clusters).order_by(schema.clusters.c.id)).mappings()
    return [
        ClusterSpec(
            revision=row["revision"],
            cluster_id=row["id"],
            brokers=tuple(nodes.get(row["id"], ())),
            engine=Engine(row["engine"]),
            kafka_cluster_id=row["kafka_cluster_id"],
            security=msgspec.convert(row["security"] or {}, UpstreamSecurity),
            is_removed=row["removed_at_ms"] is not None,
        )
        for row in rows
        if also_removed or row["removed_at_ms"] is None
    ]


def cluster(connection: Connection, cluster_id: str) -> ClusterSpec | None:
    """One cluster."""
    return next((one for one in clusters(connection) if one.cluster_id == cluster_id), None)


def touch_cluster(connection: Connection, cluster_id: str, now_ms: int) -> int:
    """Create a cluster or mark it changed: its next revision, with the outbox row."""
    drawn = next_revision(connection)
    put(connection, schema.clusters, {"id": cluster_id}, {"revision": drawn.revision})
    append_outbox(connection, drawn, OUTBOX_CLUSTER, cluster_id, None, now_ms)
    return drawn.revision


class Apache(NamedTuple):
    """What is kept of a cluster of Apache Kafka."""

    spec: ClusterSpec
    bootstrap: str
    """HOST:PORT,..."""
    kafka_cluster_id: str | None
    """What it called itself when it was met first; None: it was not met yet."""


def apaches(connection: Connection) -> list[Apache]:
    """Every cluster of Apache Kafka."""
    table = schema.clusters
    rows = connection.execute(select(table.c.id, table.c.bootstrap, table.c.kafka_cluster_id))
    kept = {row.id: (row.bootstrap or "", row.kafka_cluster_id) for row in rows}
    return [
        Apache(spec, *kept[spec.cluster_id]) for spec in clusters(connection) if spec.engine is Engine.APACHE
    ]


def apache(connection: Connection, cluster_id: str) -> Apache:
    """One that is there."""
    return next(one for one in apaches(connection) if one.spec.cluster_id == cluster_id)


def drained(connection: Connection) -> frozenset[str]:
    """Clusters that take no new instances."""
    table = schema.clusters
    return frozenset(connection.scalars(select(table.c.id).where(table.c.is_drained)))


def set_drained(connection: Connection, cluster_id: str, is_drained: bool) -> None:
    """Whether a cluster takes new instances; nobody but placement asks."""
    table = schema.clusters
    connection.execute(update(table).where(table.c.id == cluster_id).values(is_drained=is_drained))


def set_security(connection: Connection, cluster_id: str, security: UpstreamSecurity, now_ms: int) -> None:
    """How a cluster is reached from now on."""
    touch_cluster(connection, cluster_id, now_ms)
    table = schema.clusters
    values = {"security": msgspec.to_builtins(security)}
    connection.execute(update(table).where(table.c.id == cluster_id).values(values))


def occupants(connection: Connection, cluster_id: str) -> int:
    """Instances on a cluster, deleted ones that were not purged among them."""
    table = schema.instances
    is_there = (table.c.cluster_id == cluster_id) & (table.c.state != State.PURGED.value)
    return connection.scalar(select(func.count()).select_from(table).where(is_there)) or 0


def remove_cluster(connection: Connection, cluster_id: str, now_ms: int) -> None:
    """Forget where it is and who it was; its row stays, since purged instances say where they were."""
    touch_cluster(connection, cluster_id, now_ms)
    connection.execute(delete(schema.brokers).where(schema.brokers.c.cluster_id == cluster_id))
    table = schema.clusters
    gone = {"bootstrap": None, "kafka_cluster_id": None, "security": None, "ceilings": None}
    values = {**gone, "is_drained": False, "removed_at_ms": now_ms}
    connection.execute(update(table).where(table.c.id == cluster_id).values(values))


def set_bootstrap(connection: Connection, cluster_id: str, bootstrap: str, now_ms: int) -> None:
    """Make a cluster one of Apache Kafka, at these addresses."""
    table = schema.clusters
    known = connection.execute(select(table.c.bootstrap).where(table.c.id == cluster_id)).first()
    if known is not None and known.bootstrap == bootstrap:
        return
    touch_cluster(connection, cluster_id, now_ms)
    values = {"engine": Engine.APACHE.value, "bootstrap": bootstrap, "removed_at_ms": None}
    connection.execute(update(table).where(table.c.id == cluster_id).values(values))


def set_kafka_cluster_id(connection: Connection, cluster_id: str, kafka_cluster_id: str) -> None:
    """Remember what a cluster called itself when it was met first."""
    table = schema.clusters
    is_first = (table.c.id == cluster_id) & table.c.kafka_cluster_id.is_(None)
    connection.execute(update(table).where(is_first).values(kafka_cluster_id=kafka_cluster_id))


def save_broker(connection: Connection, cluster_id: str, address: BrokerAddress, now_ms: int) -> None:
    """Remember where a broker is; its cluster exists."""
    key = {"cluster_id": cluster_id, "node_id": address.node_id}
    values = {"host": address.host, "port": address.port, "registered_at_ms": now_ms}
    put(connection, schema.brokers, key, values)


def known_endpoints(connection: Connection) -> dict[Endpoint, int | None]:
    """Every endpoint ever given out, with when it was freed (None: in use)."""
    table = schema.ports
    rows = connection.execute(select(table.c.bind_host, table.c.port, table.c.freed_at_ms))
    return {Endpoint(host, port): freed_at_ms for host, port, freed_at_ms in rows}


def take_endpoint(
    connection: Connection,
    endpoint: Endpoint,
    advertised_host: str,
    tenant: str,
    instance_id: str,
    node_id: int | None,
    security_protocol: SecurityProtocol,
) -> None:
    """Give an endpoint to a listener; one that was used before changes hands."""
    values = {
        "advertised_host": advertised_host,
        "tenant": tenant,
        "instance_id": instance_id,
        "node_id": node_id,
        "security_protocol": security_protocol.value,
        "freed_at_ms": None,
    }
    put(connection, schema.ports, {"bind_host": endpoint.bind_host, "port": endpoint.port}, values)


def at_rest(connection: Connection, tenant: str) -> dict[Endpoint, int]:
    """Endpoints that were a tenant's last and serve nobody, with when that began: freed ones, and those of
    deleted instances, which get them back while they may be taken back."""
    ports, owners = schema.ports, schema.instances
    since_ms = func.coalesce(ports.c.freed_at_ms, owners.c.updated_at_ms)
    rests = ports.c.freed_at_ms.is_not(None) | owners.c.state.in_(GONE)
    query = select(ports.c.bind_host, ports.c.port, since_ms).join_from(ports, owners)
    rows = connection.execute(query.where(ports.c.tenant == tenant, rests))
    return {Endpoint(host, port): resting_since_ms for host, port, resting_since_ms in rows}


def free_endpoints(
    connection: Connection, instance_id: str, now_ms: int, keep: Iterable[SecurityProtocol] = ()
) -> None:
    """Let the endpoints of an instance rest, but for those of the protocols to keep. Those that no gateway
    has served mean nothing to anybody: they are as if they had never been given out."""
    table, owners = schema.ports, schema.instances
    its = (table.c.instance_id == instance_id) & table.c.freed_at_ms.is_(None)
    its &= table.c.security_protocol.not_in([one.value for one in keep])
    served_at_ms = connection.scalar(select(owners.c.served_at_ms).where(owners.c.id == instance_id))
    if served_at_ms is not None:
        connection.execute(update(table).where(its).values(freed_at_ms=now_ms))
    else:
        connection.execute(delete(table).where(its))


def free_other_nodes(connection: Connection, instance_id: str, node_ids: Iterable[int], now_ms: int) -> bool:
    """Let the endpoints of brokers rest that are none of these; whether there were any."""
    table = schema.ports
    its = (table.c.instance_id == instance_id) & table.c.freed_at_ms.is_(None)
    others = its & table.c.node_id.is_not(None) & table.c.node_id.not_in(list(node_ids))
    return connection.execute(update(table).where(others).values(freed_at_ms=now_ms)).rowcount > 0


def move_host(connection: Connection, bind_host: str, advertised_host: str) -> set[str]:
    """Have every listener bind and advertise other hosts, ports kept: the stack's vip was changed.

    Returns the ids of instances whose listeners changed. Only for a vip that is one address.
    """
    table = schema.ports
    differs = (table.c.bind_host != bind_host) | (table.c.advertised_host != advertised_host)
    rows = connection.execute(select(table.c.instance_id, table.c.freed_at_ms).where(differs))
    changed = {instance_id for instance_id, freed_at_ms in rows if freed_at_ms is None}
    connection.execute(
        update(table).where(differs).values(bind_host=bind_host, advertised_host=advertised_host)
    )
    return changed
