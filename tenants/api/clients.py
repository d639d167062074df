"""Clients of an instance as they tell of themselves (KIP-714): versions, latency, retries, lag."""

from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import Field

from runtime.clock import monotonic_ms
from tenants.api.context import Found, Plane
from tenants.api.models import ViewModel
from tenants.api.routers import api_router
from tenants.rules.client_figures import figures, state_of
from tenants.rules.client_reports import CLIENTS_KEPT, Seen

router = api_router("/v1/instances/{instance}/clients", "clients")
_NAME: Final = "org.apache.kafka.producer.request.latency.avg"


class ClientFigures(ViewModel):
    """Of one client, over its last interval; null: it does not tell. Of several brokers, topics or
    partitions the highest is told."""

    request_latency_avg_ms: float | None = Field(
        description="of its requests, at the slowest broker", examples=[3.9]
    )
    request_latency_max_ms: float | None = Field(description="the longest of them", examples=[15.0])
    queue_time_avg_ms: float | None = Field(
        description="for which records waited in the producer", examples=[0.4]
    )
    queue_time_max_ms: float | None = Field(description="the longest of them", examples=[6.0])
    fetch_latency_avg_ms: float | None = Field(
        description="of fetches, waiting for data included", examples=[None]
    )
    fetch_latency_max_ms: float | None = Field(description="the longest of them", examples=[None])
    throttle_time_avg_ms: float | None = Field(
        description="for which answers told it to wait", examples=[0.0]
    )
    throttle_time_max_ms: float | None = Field(description="the longest of them", examples=[0.0])
    retries: float | None = Field(
        description="records that were sent again, since the push before", examples=[0.0]
    )
    errors: float | None = Field(
        description="records that failed for good, since the push before", examples=[0.0]
    )
    lag_records_max: float | None = Field(
        description="records by which its slowest partition is behind", examples=[None]
    )
    poll_idle_ratio: float | None = Field(
        description="share of time that its consumer waits in poll: near 0 it is busy with records",
        examples=[None],
    )
    poll_interval_max_ms: float | None = Field(
        description="the longest time between two polls", examples=[None]
    )
    commit_latency_avg_ms: float | None = Field(description="of committing offsets", examples=[None])
    rebalances: float | None = Field(description="of its group, since the push before", examples=[None])
    assigned_partitions: float | None = Field(description="that its consumer has", examples=[None])


class ClientView(ViewModel):
    """One client. All but its address is its own word."""

    client_instance_id: str = Field(
        description="drawn by Portico, as Kafka's clients print it", examples=["WEs1Rv6nSyWqWRhtB2XnbA"]
    )
    client_id: str = Field(description="`client.id`", examples=["orders-app"])
    software_name: str = Field(description="as it names itself", examples=["apache-kafka-java"])
    software_version: str = Field(description="as it names itself", examples=["4.3.1"])
    address: str = Field(examples=["10.1.2.3"])
    group_id: str = Field(description="of a consumer; empty: none", examples=["orders"])
    transactional_id: str = Field(description="of a producer; empty: none", examples=[""])
    state: Literal["live", "silent", "disconnected", "ended"] = Field(
        description="`silent`: two pushes and more did not come; `disconnected`: the connection by which it "
        "told last has ended; `ended`: it said so",
        examples=["live"],
    )
    age_ms: int = Field(description="since its last push", examples=[12_000])
    push_interval_ms: int = Field(description="how often it is to push", examples=[60_000])
    shown: ClientFigures = Field(description="what is looked at first")
    metrics: dict[str, float] = Field(
        description="all that is kept of its last push, by Kafka's names: of sums what was added since the "
        "push before, of others the highest over all labels",
        examples=[{_NAME: 3.5}],
    )


class ClientList(ViewModel):
    """GET .../clients, the last heard first."""

    enabled: bool = Field(description="whether clients are asked: `client_metrics` of the instance")
    subscriptions: list[str] = Field(
        description="names of the tenant's own subscriptions, made by Kafka's tools", examples=[["latency"]]
    )
    known: int = Field(
        description=f"clients that told something within the last hour, at most {CLIENTS_KEPT}", examples=[1]
    )
    items: list[ClientView] = Field(description="the last heard first")


@router.get("")
async def clients(
    plane: Plane,
    found: Found,
    limit: Annotated[int, Query(ge=1, le=CLIENTS_KEPT, description="clients to tell of")] = 100,
) -> ClientList:
    """What clients of an instance told of themselves last (KIP-714). It is kept in memory: after a restart of
    the control plane each client is known again with its next push."""
    now_ms = monotonic_ms()
    kept = plane.client_reports.clients(found.id, now_ms)
    return ClientList(
        enabled=found.client_metrics,
        subscriptions=[one.name for one in found.metric_subscriptions],
        known=len(kept),
        items=[_view(one, now_ms) for one in kept[:limit]],
    )


def _view(seen: Seen, now_ms: int) -> ClientView:
    report, age_ms = seen.report, now_ms - seen.seen_ms
    return ClientView(
        client_instance_id=report.client_instance_id,
        client_id=report.client_id,
        software_name=report.software_name,
        software_version=report.software_version,
        address=report.address,
        group_id=report.group_id,
        transactional_id=report.transactional_id,
        state=state_of(seen, now_ms),
        age_ms=age_ms,
        push_interval_ms=report.push_interval_ms,
        shown=ClientFigures(**figures(report.values)),
        metrics=dict(sorted(report.values.items())),
    )
