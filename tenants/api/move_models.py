"""Moves between clusters as the API takes and shows them."""

from datetime import datetime

from pydantic import Field

from tenants.api.models import RequestModel, ViewModel
from tenants.rules.moves import Phase


class MoveOrder(RequestModel):
    """POST .../move: where to."""

    cluster: str = Field(
        min_length=1, max_length=64, description="the cluster to move to", examples=["builtin-2"]
    )
    fill_gaps: bool = Field(
        default=False,
        description="towards an Apache Kafka: fill offsets that have no record (compaction, transactions); "
        "what is there is then not found by time, and retention keeps it as if written when it moved",
        examples=[False],
    )


class MoveView(ViewModel):
    """A move that is under way, or is over."""

    id: str = Field(description="of the move", examples=["mv_0a1b2c3d4e5f"])
    instance: str = Field(description="the id of the instance", examples=["iabcdefghijk"])
    source: str = Field(description="the cluster it was on when the move began", examples=["builtin-1"])
    target: str = Field(description="the cluster it moves to", examples=["builtin-2"])
    phase: Phase = Field(
        description="copying and switching: clients are served from the source; switched: from the target, "
        "and the source's copy is kept; purging, done: that copy is removed; cancelling, cancelled: the "
        "target's is",
        examples=["copying"],
    )
    reason: str | None = Field(
        description="why it stands still, or was cancelled; null: it goes on, or went as ordered",
        examples=[None],
    )
    copied_bytes: int = Field(
        description="at the target, when it was looked last (bytes)", examples=[1048576]
    )
    total_bytes: int = Field(description="at the source (bytes)", examples=[5368709120])
    tries: int = Field(description="switches that were given up, to be tried again", examples=[0])
    gap_ms: int | None = Field(
        description="how long gateways held clients at the switch (ms); null: not switched", examples=[None]
    )
    fill_gaps: bool = Field(description="whether offsets without a record are filled", examples=[False])
    started_at: datetime = Field(description="when it was ordered")
    switched_at: datetime | None = Field(
        description="since when clients are served from the target; null: they are not", examples=[None]
    )
    started_by: str = Field(description="who ordered it", examples=["operator:key:local"])


class MoveList(ViewModel):
    """Moves that are not over."""

    items: list[MoveView] = Field(description="in the order in which they began")
