"""What is shown of advice. Fields that tell of brokers are for operators."""

import msgspec

from contracts.advice import AdviceRow, ForecastRow, MoveRow, SkewRow
from tenants.usecases.advice import SkewSummary


class AdvisedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance with its newest advice."""

    tenant: str
    name: str
    advice: AdviceRow
    skew: list[SkewSummary]
    """Skew of produce and of consume."""


class AdviceOverview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/advice, the most urgent first."""

    available: bool
    hint: str | None
    items: list[AdvisedInstance]


class AdviceView(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/advice."""

    available: bool
    hint: str | None
    advice: AdviceRow | None
    """None: nothing has been advised yet. Usable shares and moves are empty for tenants."""
    forecast: list[ForecastRow]
    skew: list[SkewRow] | None
    """None for tenants."""
    moves: list[MoveRow] | None
    """None for tenants."""
