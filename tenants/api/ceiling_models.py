"""How much a tenant may have and a cluster may sell, as the API shows and takes it."""

from typing import Annotated

from pydantic import Field

from tenants.api.models import RequestModel, ViewModel
from tenants.rules.ceilings import CEILING_MAX

Ceiling = Annotated[int | None, Field(ge=0, le=CEILING_MAX)]


class AmountsView(ViewModel):
    """One number per thing that is sold; rates in bytes/s."""

    instances: int
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int
    partitions: int
    connections: int
    faults: int = Field(
        description="injected by tenants into their instances, at once; 0: none is allowed", examples=[10]
    )


class CeilingsView(ViewModel):
    """What may be had in all, what is had, what is left. `own` names those that an operator has set."""

    name: str = Field(examples=["acme"])
    ceilings: AmountsView
    sold: AmountsView
    left: AmountsView
    own: list[str]


class ClusterCeilingsList(ViewModel):
    """GET /v1/clusters."""

    items: list[CeilingsView]


class CeilingsChange(RequestModel):
    """PATCH .../ceilings: null is the default again, what is left out stays. Nothing is taken away."""

    instances: Ceiling = None
    produce_rate_bytes_per_s: Ceiling = None
    consume_rate_bytes_per_s: Ceiling = None
    capacity_bytes: Ceiling = None
    partitions: Ceiling = None
    connections: Ceiling = None
    faults: Ceiling = Field(default=None, description="0 forbids tenants to inject faults", examples=[0])
