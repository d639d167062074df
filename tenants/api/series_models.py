"""What is told of series: points of equal steps, names, and marks."""

from typing import Annotated

import msgspec

from tenants.rules.series import Kind
from tenants.rules.series_prometheus import Note, Source
from tenants.rules.usage_periods import Time


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one series, of equal steps and without holes: what is not known is null."""

    kind: Annotated[Kind, msgspec.Meta(examples=["topic"])]
    """What it is of."""
    name: str
    """The broker, topic, group or client id; empty: the instance itself, or what those without a series of
    their own add up to."""
    start_ms: int
    """When the first step begins."""
    step_ms: int
    """How long each step is; the server chooses it by the span."""
    newest_at_ms: int | None
    """When the last step begins of which anything is known; null: nothing is."""
    source: Source
    """Where all of its points are from."""
    note: Note | None
    """Why it is of what is recorded though a Prometheus is named that might know more, or what is wrong with
    its answer; null: nothing is to be said."""
    longest_ms: int
    """The longest time that may be asked for at once; longer where a Prometheus is named."""
    metrics: Annotated[
        dict[str, list[int | None]], msgspec.Meta(examples=[{"produce_bytes_per_s": [1_048_576, None]}])
    ]
    """By metric, a value for each step; rates and throttled times are averages, all else the largest. What a
    Prometheus does not have is null in an answer of it."""


class SeriesNames(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers, topics, groups or client ids that have a series in a span."""

    items: tuple[str, ...]
    """By name; the busiest have a series of their own. Empty: the others together."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    at: Time
    """When it happened."""
    kind: Annotated[str, msgspec.Meta(examples=["instance.change"])]
    """An action of the audit log, or `alarm.raised` and `alarm.cleared`."""
    says: Annotated[str, msgspec.Meta(examples=["capacity_bytes: 1000000000 -> 2000000000"])]
    """What changed, or why the alarm was raised."""


class MarkList(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a span, the newest 200, oldest first."""

    items: tuple[Mark, ...]
