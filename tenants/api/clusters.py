"""Brokers and partitions, for operators."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from fastapi import Path, Query

from contracts.fleet import FleetBroker
from contracts.names import SCOPE_LENGTH, SYSTEM_INSTANCE_ID, owner_of
from contracts.specs import BrokerAddress, ClusterSpec, DamagedLog, Engine
from contracts.upstream import ClusterTrouble, UpstreamSecurity
from runtime.clock import epoch_ms, monotonic_ms
from tenants.apache_watch import Seen
from tenants.api import cluster_models
from tenants.api.context import Asker, Plane, at
from tenants.api.routers import api_router
from tenants.backend.apache import LACKS, QUOTAS_NOT_SET
from tenants.backend.facts import ClusterFacts, PartitionState
from tenants.console import Console
from tenants.rules.errors import Unavailable
from tenants.usecases.clusters import NAME_SHAPE

router = api_router("/v1", "operations")
Name = Annotated[str, Path(max_length=64, description="the id of the cluster")]
NewName = Annotated[
    str,
    Path(pattern=NAME_SHAPE, description="its id: lower-case letters, digits and '-'", examples=["kafka-2"]),
]


class _Seen(NamedTuple):
    """What the feed knows of a broker."""

    is_live: bool
    """Whether it follows the feed."""
    seen_ms: int
    """When it was seen last."""
    damaged_logs: tuple[DamagedLog, ...]


ByBroker = dict[tuple[str, int], _Seen]
"""What was seen, by (cluster, node)."""


@router.get("/brokers")
async def brokers(plane: Plane) -> cluster_models.BrokerList:
    """The brokers that registered: are they there, what they lead and hold, what lacks replicas."""
    specs: list[ClusterSpec] = await asyncio.to_thread(plane.clusters)
    seen = _seen(plane)
    items: list[cluster_models.BrokerView] = []
    clusters: list[cluster_models.ClusterView] = []
    quota_troubles = await _quota_troubles(plane)
    drained = await asyncio.to_thread(plane.registry.drained)
    told = await plane.fleet.brokers()
    looks = await asyncio.gather(*(_look(plane, spec) for spec in specs))  # one that is down holds up nobody
    for spec, (facts, sizes) in zip(specs, looks, strict=True):
        looked = plane.apaches.seen.get(spec.cluster_id)
        if facts is not None and spec.engine is Engine.APACHE:
            facts = replace(
                facts, controller_id=None
            )  # which it calls so is any broker that passes requests on
        lacks = _lacks(spec, quota_troubles)
        ill = plane.illness(spec.cluster_id)
        partly = None if looked is None else looked.trouble
        clusters.append(
            _cluster_view(
                spec,
                facts,
                trouble=partly if ill is None else ill.says,
                cause=None if ill is None else ill.cause,
                answered_at=_answered_at(looked),
                lacks=lacks,
                is_drained=spec.cluster_id in drained,
            )
        )
        items += [
            _broker_view(spec.cluster_id, one, seen, facts, sizes, told.get((spec.cluster_id, one.node_id)))
            for one in spec.brokers
        ]
    return cluster_models.BrokerList(items=items, clusters=clusters)


@router.get("/cluster/partitions")
async def cluster_partitions(
    plane: Plane,
    under_replicated: Annotated[bool, Query(description="those that lack replicas in sync")] = False,
    offline: Annotated[bool, Query(description="those without a leader")] = False,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many are listed at most")] = 200,
) -> cluster_models.ClusterPartitionList:
    """Partitions of all clusters: all, or those that lack something. Offline ones first, then tenants'."""
    every = not (under_replicated or offline)
    every_spec: list[ClusterSpec] = await asyncio.to_thread(plane.clusters)
    specs = [spec for spec in every_spec if spec.brokers]
    names = await asyncio.to_thread(plane.instances.names)
    found: list[tuple[str, PartitionState]] = []
    every_facts = await asyncio.gather(*(_facts(plane, spec) for spec in specs))
    if specs and not any(every_facts):
        raise Unavailable("no cluster answers now. Try again in a few seconds")
    for spec, facts in zip(specs, every_facts, strict=True):
        found += [
            (spec.cluster_id, one)
            for one in (() if facts is None else facts.partitions)
            if every or (under_replicated and one.is_under_replicated) or (offline and one.leader is None)
        ]
    own = (None, SYSTEM_INSTANCE_ID)
    found.sort(key=lambda each: (each[1].leader is not None, owner_of(each[1].topic) in own))
    shown = [_partition_view(cluster_id, one, names) for cluster_id, one in found[:limit]]
    return cluster_models.ClusterPartitionList(items=shown, total=len(found))


async def _look(plane: Console, spec: ClusterSpec) -> tuple[ClusterFacts | None, dict[int, int]]:
    facts = await _facts(plane, spec)
    return facts, await plane.facts.log_bytes(spec.cluster_id) if facts is not None else {}


async def _facts(plane: Console, spec: ClusterSpec) -> ClusterFacts | None:
    if not spec.brokers:
        return None
    try:
        return await plane.facts.facts(spec.cluster_id)
    except Unavailable:
        return None


def _seen(plane: Console) -> ByBroker:
    now_ms = monotonic_ms()
    seen: ByBroker = {}
    for one in plane.feed.followers().values():
        if one.broker is not None:
            cluster_id, address = one.broker
            age_ms = 0 if one.polls_open else now_ms - one.seen_ms
            seen[cluster_id, address.node_id] = _Seen(
                one.is_live(now_ms), epoch_ms() - age_ms, one.damaged_logs
            )
    return seen | _seen_outside(plane, now_ms)


def _seen_outside(plane: Console, now_ms: int) -> ByBroker:
    """Brokers that follow no feed: as they were seen from here."""
    return {
        (cluster_id, one.node_id): _Seen(
            looked.trouble is None or bool(looked.brokers), epoch_ms() - (now_ms - looked.at_ms), ()
        )
        for cluster_id, looked in plane.apaches.seen.items()
        for one in looked.brokers
    }


def _broker_view(
    cluster_id: str,
    address: BrokerAddress,
    seen: ByBroker,
    facts: ClusterFacts | None,
    sizes: dict[int, int],
    told: FleetBroker | None,
) -> cluster_models.BrokerView:
    node_id = address.node_id
    known = seen.get((cluster_id, node_id))
    alive = None if facts is None else node_id in facts.brokers
    own = None if facts is None else facts.brokers.get(node_id) or facts.absent.get(node_id)
    none = None if facts is None else 0
    return cluster_models.BrokerView(
        cluster_id=cluster_id,
        node_id=node_id,
        host=address.host,
        port=address.port,
        live=known is not None and known.is_live,
        seen_at=None if known is None else at(known.seen_ms),
        alive=alive,
        report_age_ms=None if told is None else told.report_age_ms,
        silent=None if told is None else told.silent,
        produce_bytes_per_s=None if told is None else told.produce_per_s,
        consume_bytes_per_s=None if told is None else told.consume_per_s,
        rack=None if own is None else own.rack,
        is_controller=None if facts is None else facts.controller_id == node_id,
        leaders=none if own is None else own.leaders,
        replicas=none if own is None else own.replicas,
        in_sync=none if own is None else own.in_sync,
        under_replicated=none if own is None else own.under_replicated,
        log_bytes=sizes.get(node_id),
        damaged_logs=[_damaged(one) for one in (() if known is None else known.damaged_logs)],
    )


def _damaged(one: DamagedLog) -> cluster_models.DamagedLogView:
    instance_id = owner_of(one.topic)
    return cluster_models.DamagedLogView(
        topic=one.topic if instance_id is None else one.topic[SCOPE_LENGTH:],
        partition=one.partition,
        instance_id=instance_id,
        first_offset=one.first_offset,
        next_offset=one.next_offset,
        kind=one.kind,
        replicas=one.replicas,
    )


async def _quota_troubles(plane: Console) -> dict[str, str]:
    """Why client quotas of clusters are not those of the leases; the master's silence is told elsewhere."""
    try:
        overview = await plane.quota.overview()
    except Unavailable:
        return {}
    return {each.cluster_id: each.trouble for each in overview.engines if each.trouble is not None}


def _lacks(spec: ClusterSpec, quota_troubles: dict[str, str]) -> list[str]:
    if spec.engine is not Engine.APACHE:
        return []
    trouble = quota_troubles.get(spec.cluster_id)
    return list(LACKS) if trouble is None else [QUOTAS_NOT_SET.format(trouble), *LACKS]


def _cluster_view(
    spec: ClusterSpec,
    facts: ClusterFacts | None,
    *,
    trouble: str | None,
    cause: ClusterTrouble | None,
    answered_at: datetime | None,
    lacks: list[str],
    is_drained: bool,
) -> cluster_models.ClusterView:
    return cluster_models.ClusterView(
        cluster_id=spec.cluster_id,
        engine=spec.engine,
        trouble=trouble,
        cause=cause,
        answered_at=answered_at,
        lacks=lacks,
        drained=is_drained,
        security=_security(spec),
        controller_id=None if facts is None else facts.controller_id,
        brokers=None if facts is None else len(facts.brokers),
        partitions=None if facts is None else len(facts.partitions),
        under_replicated=None if facts is None else sum(one.is_under_replicated for one in facts.partitions),
        offline=None if facts is None else sum(one.leader is None for one in facts.partitions),
    )


def _answered_at(looked: Seen | None) -> datetime | None:
    if looked is None or not looked.at_ms:
        return None
    return at(epoch_ms() - (monotonic_ms() - looked.at_ms))


def _security(spec: ClusterSpec) -> cluster_models.SecurityView | None:
    if spec.engine is not Engine.APACHE:
        return None
    return cluster_models.SecurityView.model_validate(spec.security, from_attributes=True)


@router.put("/clusters/{name}", status_code=204)
async def put_cluster(
    plane: Plane, operator: Asker, name: NewName, body: cluster_models.ClusterOrder
) -> None:
    """Register an Apache Kafka, or say anew where it is and how it is entered. It is met within seconds, or
    the list of brokers says why not. Files with credentials are put on machines, not sent."""
    security = msgspec.convert(body.security.model_dump(), UpstreamSecurity)
    await asyncio.to_thread(plane.registry.put, operator, name, body.bootstrap, security)


@router.patch("/clusters/{name}", status_code=204)
async def change_cluster(
    plane: Plane, operator: Asker, name: Name, body: cluster_models.ClusterChange
) -> None:
    """Have it take no new instances, or take some again; those that it has stay."""
    await asyncio.to_thread(plane.registry.drain, operator, name, body.drained)


@router.delete("/clusters/{name}", status_code=204)
async def remove_cluster(plane: Plane, operator: Asker, name: Name) -> None:
    """Forget a cluster on which no instance is, nor the data of a deleted one."""
    await asyncio.to_thread(plane.registry.remove, operator, name)


def _partition_view(
    cluster_id: str, state: PartitionState, names: dict[str, tuple[str, str]]
) -> cluster_models.ClusterPartitionView:
    instance_id = owner_of(state.topic)
    tenant, instance = names.get(instance_id or "", (None, None))
    return cluster_models.ClusterPartitionView(
        cluster_id=cluster_id,
        topic=state.topic if instance_id is None else state.topic[SCOPE_LENGTH:],
        partition=state.partition,
        instance_id=instance_id,
        tenant=tenant,
        instance=instance,
        leader=state.leader,
        replicas=list(state.replicas),
        isr=list(state.isr),
        offline_replicas=list(state.offline_replicas),
        under_replicated=state.is_under_replicated,
    )
