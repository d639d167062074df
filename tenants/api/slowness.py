"""Why clients of an instance are slow, from what its quota did in the last minutes."""

import asyncio
from typing import Final

from pydantic import Field

from contracts.quota_view import Rule
from runtime.clock import epoch_ms, monotonic_ms
from tenants.api.connections import ConnectedView
from tenants.api.context import Found, Plane
from tenants.api.models import ViewModel
from tenants.api.routers import api_router
from tenants.console import Console
from tenants.rules import slowness
from tenants.rules.client_figures import figures
from tenants.rules.connected import clients_of
from tenants.rules.model import Instance
from tenants.rules.series import METRICS, STEP_MS, Kind, Span
from tenants.rules.slowness import MINUTES, TOLD_MAX, Busy, Flow, FlowWhy, Verdict

router = api_router("/v1/instances/{instance}/slowness", "quota")
_PERCENT: Final = "% of the time in which clients were held back"


class HeldView(ViewModel):
    """A broker or gateway worker that held clients back."""

    point: str = Field(description="its name", examples=["broker-1"])
    throttled_percent: float = Field(description=_PERCENT, examples=[97.0])
    rate_per_s: int = Field(description="what was used, on average")
    allocated_per_s: int = Field(description="what it was allotted, on average")


class EffectView(ViewModel):
    """What another size would do, if clients want what they want now."""

    factor: float = Field(description="times what is bought now", examples=[2.0])
    purchased_per_s: int = Field(description="that much would be bought")
    throttled_percent: float = Field(description=_PERCENT, examples=[0.0])
    arithmetic: str = Field(
        description="how that comes about: the free part of the time grows with the size",
        examples=["100 - 2 x (100 - 60) = 20.0"],
    )


class FlowView(ViewModel):
    """What an instance buys by the second. `cpu`: request time, in µs."""

    flow: Flow
    throttled_percent: float = Field(description=f"{_PERCENT}, where it was longest", examples=[97.0])
    rate_per_s: int = Field(description="what is used now")
    purchased_per_s: int = Field(description="what is bought")
    rule: Rule = Field(description="the step of the quota rule that holds now")
    explanation: str = Field(
        description="why, with its numbers", examples=["every broker is below 80 % of its share"]
    )
    held: list[HeldView] = Field(description=f"who held back, the longest first; {TOLD_MAX} at most")
    effects: list[EffectView] = Field(description="what other sizes change; empty: nothing is held back")


class BusyTopic(ViewModel):
    """A topic that is written to."""

    name: str = Field(description="of the topic", examples=["orders"])
    records_per_s: int = Field(description="on average", examples=[1200])


class SlowClient(ViewModel):
    """A client by its own word (KIP-714)."""

    client_id: str = Field(description="`client.id`", examples=["orders-app"])
    address: str = Field(examples=["10.1.2.3"])
    throttle_time_max_ms: float | None = Field(
        description="the longest that it was told to wait", examples=[950.0]
    )
    request_latency_avg_ms: float | None = Field(description="of its requests", examples=[3.9])


class SlownessView(ViewModel):
    """GET .../slowness."""

    verdict: Verdict = Field(
        description="`full`: at capacity; `throttled`: by a rate or request time; `calm`: the quota holds "
        "nobody back",
        examples=["throttled"],
    )
    says: str = Field(
        description="in a sentence", examples=["throttled 97 % of the last 5 min: producers were held back"]
    )
    seconds: int = Field(description=f"of which something is known, {MINUTES} min at most", examples=[300])
    full_percent: float = Field(description="% of the time in which it was full", examples=[0.0])
    flows: list[FlowView] = Field(description="the one that holds back longest first")
    topics: list[BusyTopic] = Field(description="the busiest ones, which use the rate")
    busiest: list[ConnectedView] = Field(description="clients that carry most now")
    clients: list[SlowClient] = Field(description="who waited longest, of those that tell")


@router.get("")
async def instance_slowness(plane: Plane, found: Found) -> SlownessView:
    """Why clients are slow, as far as the quota is the reason: what held back whom in the last five minutes,
    by which step, which topics and clients use the rate, and what another size would change."""
    view = await plane.quota.with_history(found.id, MINUTES * 60)
    why = slowness.why(view)
    topics = await asyncio.to_thread(_busiest, plane, found)
    now_ms = monotonic_ms()
    connected = clients_of(plane.gateways.counts(found.id, now_ms), now_ms).items[:TOLD_MAX]
    return SlownessView(
        verdict=why.verdict,
        says=why.says,
        seconds=why.seconds,
        full_percent=why.full_percent,
        flows=[_flow(one) for one in why.flows],
        topics=[BusyTopic(**one._asdict()) for one in topics],
        busiest=[ConnectedView.of(one) for one in connected],
        clients=_slowest(plane, found),
    )


def _busiest(plane: Console, instance: Instance) -> list[Busy]:
    now_ms = epoch_ms()
    span = Span(now_ms - MINUTES * 60_000, now_ms, STEP_MS)
    place = [one.name for one in METRICS[Kind.TOPIC]].index("records_per_s")
    names = plane.series.names(instance.id, Kind.TOPIC, span)
    read = ((name, plane.series.read(instance.id, Kind.TOPIC, name, span)) for name in names)
    return slowness.busiest((name, [point[place] for point in one.columns.values()]) for name, one in read)


def _slowest(plane: Console, instance: Instance) -> list[SlowClient]:
    found = []
    for seen in plane.client_reports.clients(instance.id, monotonic_ms()):
        told = figures(seen.report.values)
        found.append(
            SlowClient(
                client_id=seen.report.client_id,
                address=seen.report.address,
                throttle_time_max_ms=told["throttle_time_max_ms"],
                request_latency_avg_ms=told["request_latency_avg_ms"],
            )
        )
    found.sort(key=lambda one: (-(one.throttle_time_max_ms or 0), -(one.request_latency_avg_ms or 0)))
    return found[:TOLD_MAX]


def _flow(one: FlowWhy) -> FlowView:
    return FlowView(
        flow=one.flow,
        throttled_percent=one.throttled_percent,
        rate_per_s=one.decision.rate_per_s,
        purchased_per_s=one.decision.purchased_per_s,
        rule=one.decision.rule,
        explanation=one.decision.explanation,
        held=[HeldView(**each._asdict()) for each in one.held],
        effects=[EffectView(**each._asdict()) for each in one.effects],
    )
