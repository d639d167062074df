"""Who is connected to an instance and what he carries, as its gateways count it."""

import msgspec
from pydantic import Field

from contracts.connected import ConnectedClient
from runtime.clock import monotonic_ms
from tenants.api.context import Found, Plane
from tenants.api.models import ViewModel
from tenants.api.routers import api_router
from tenants.rules.connected import SHOWN_MAX, clients_of

router = api_router("/v1/instances/{instance}/connections", "clients")


class ConnectedView(ViewModel):
    """Connections of one address, client id, user and software."""

    address: str = Field(examples=["10.1.2.3"])
    client_id: str = Field(
        description="`client.id`, by its own word; empty: it has not said", examples=["orders-app"]
    )
    user: str = Field(description="who has logged in; empty: nobody", examples=["orders"])
    software: str = Field(
        description="name and version, by its own word; empty: it has not said",
        examples=["apache-kafka-java 4.3.1"],
    )
    connections: int = Field(description="that are open", examples=[3])
    ended_per_s: float = Field(
        description="connections that ended, per second: a client that dials again and again has many",
        examples=[0.0],
    )
    in_bytes_per_s: int = Field(description="from the client, on the wire", examples=[120_000])
    out_bytes_per_s: int = Field(description="to the client, on the wire", examples=[900])

    @classmethod
    def of(cls, one: ConnectedClient) -> "ConnectedView":
        """As it is counted."""
        return cls(**msgspec.structs.asdict(one))


class Connections(ViewModel):
    """GET .../connections."""

    open: int = Field(description="connections that are open now", examples=[12])
    count: int = Field(description="clients, at least: a flood of names is not told apart", examples=[4])
    age_ms: int | None = Field(
        description="of the oldest count; null: no gateway has counted yet", examples=[3_000]
    )
    items: list[ConnectedView] = Field(description=f"who carries most comes first; {SHOWN_MAX} at most")
    others: ConnectedView | None = Field(
        description="all who are not among them, together; null: there are none"
    )


@router.get("")
async def connections(plane: Plane, found: Found) -> Connections:
    """Who is connected now and what each carries, over the last seconds: counted by gateways for every
    client, whatever it tells of itself. `.../clients` has what clients measure."""
    now_ms = monotonic_ms()
    told = clients_of(plane.gateways.counts(found.id, now_ms), now_ms)
    return Connections(
        open=plane.gateways.connections(found.id, now_ms),
        count=told.known,
        age_ms=told.age_ms,
        items=[ConnectedView.of(one) for one in told.items],
        others=None if told.others is None else ConnectedView.of(told.others),
    )
