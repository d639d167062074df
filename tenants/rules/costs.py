"""What a month has cost so far, and will have cost at its end if things go on. Pure.

Bytes, requests and storage are those of the hours that are known, settled or counted. They go on as in the
days just before; limits are taken to have been, and to stay, as they are now. The 95th percentile needs the
month's five minutes, which only the pipeline has: it is left out, and said to be.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from contracts.billing import DAY_MS, HOUR_MS, Dimension
from contracts.prices import PricedLine, Prices, Quantities, price_month, unpriced
from tenants.rules.counted_usage import Measured

RECENT_MS: Final = 7 * DAY_MS
"""What is to come is like this long before: a week has its nights and its weekend."""


class Why(StrEnum):
    """Why a dimension is not in the costs."""

    FIVE_MINUTES = "five_minutes"
    NO_PRICE = "no_price"

    @property
    def says(self) -> str:
        """In a sentence."""
        return _SAYS[self]


_SAYS: Final = {
    Why.FIVE_MINUTES: "its five minutes are the pipeline's alone: the bill has it",
    Why.NO_PRICE: "it has no price: the bill is held until it has one",
}


class Month(NamedTuple):
    """Epoch ms at which a month begins and ends."""

    begin_ms: int
    end_ms: int

    @property
    def first_day(self) -> date:
        """Of UTC."""
        return datetime.fromtimestamp(self.begin_ms / 1000, UTC).date()


class Lived(NamedTuple):
    """An instance's months are whole only between its creation and its deletion."""

    created_ms: int
    goes_on: bool
    rate_bytes_per_s: int
    """Its limits now, produce and consume together."""


class CostLine(NamedTuple):
    """One dimension; `projected` None: less than an hour is known."""

    so_far: PricedLine
    projected: PricedLine | None


class Costs(NamedTuple):
    """Of one instance and month."""

    known_until_ms: int
    lines: tuple[CostLine, ...]
    left_out: tuple[tuple[Dimension, Why], ...]

    @property
    def so_far_minor(self) -> int:
        """Of all lines."""
        return sum(line.so_far.amount_minor for line in self.lines)

    @property
    def projected_minor(self) -> int | None:
        """Of all lines; None where nothing can be said yet."""
        found = [line.projected.amount_minor for line in self.lines if line.projected is not None]
        return sum(found) if len(found) == len(self.lines) else None


def month_of(now_ms: int) -> Month:
    """The one that goes on, of UTC."""
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return Month(round(first.timestamp()) * 1000, round(after.timestamp()) * 1000)


def first_asked_ms(month: Month, now_ms: int) -> int:
    """From when on hours are needed: this month's, and those of the days just before."""
    return min(month.begin_ms, (now_ms - RECENT_MS) // HOUR_MS * HOUR_MS)


def costs(prices: Prices, hours: Sequence[Measured], month: Month, lived: Lived, now_ms: int) -> Costs:
    """`hours` from `first_asked_ms` on, oldest first, at least one."""
    known_until_ms = max(month.begin_ms, min(now_ms, _begin_ms(hours[-1]) + HOUR_MS))
    since_ms = max(known_until_ms - RECENT_MS, lived.created_ms) // HOUR_MS * HOUR_MS
    own = _used(one for one in hours if _begin_ms(one) >= month.begin_ms)
    recent = _used(one for one in hours if _begin_ms(one) >= since_ms)
    recent_ms = known_until_ms - since_ms
    left_ms = max(0, month.end_ms - known_until_ms) if lived.goes_on else 0
    lived_ms = max(0, known_until_ms - max(month.begin_ms, lived.created_ms))
    so_far = _quantities(own, lived.rate_bytes_per_s * lived_ms // 1000)
    lines = _charged(prices, so_far)
    projected: tuple[PricedLine | None, ...] = (None,) * len(lines)
    if recent_ms >= HOUR_MS or left_ms == 0:
        more = [a + (b * left_ms // recent_ms if left_ms else 0) for a, b in zip(own, recent, strict=True)]
        at_end = _quantities(more, lived.rate_bytes_per_s * (lived_ms + left_ms) // 1000)
        projected = _charged(prices, at_end)
    left_out = [(each, Why.NO_PRICE) for each in unpriced(prices, so_far)]
    p95 = prices.rates.get(Dimension.BANDWIDTH_P95)
    if p95 is None and (so_far.produce_bytes or so_far.consume_bytes):
        left_out.append((Dimension.BANDWIDTH_P95, Why.NO_PRICE))
    elif p95 is not None and any(tier.price for tier in p95.tiers):
        left_out.append((Dimension.BANDWIDTH_P95, Why.FIVE_MINUTES))
    return Costs(known_until_ms, tuple(map(CostLine, lines, projected)), tuple(left_out))


def limits_minor(prices: Prices, month: Month, rate_bytes_per_s: int) -> int | None:
    """What limits that hold for the whole month cost, whatever is used of them; None: they have no price."""
    whole = _quantities((0, 0, 0, 0), rate_bytes_per_s * (month.end_ms - month.begin_ms) // 1000)
    lines = price_month(prices, whole)
    return next((one.amount_minor for one in lines if one.dimension is Dimension.PROVISIONED), None)


def _charged(prices: Prices, used: Quantities) -> tuple[PricedLine, ...]:
    return tuple(each for each in price_month(prices, used) if each.dimension is not Dimension.BANDWIDTH_P95)


def _used(hours: Iterable[Measured]) -> list[int]:
    """Bytes produced and consumed, requests, and the integral of stored bytes."""
    sums = [0, 0, 0, 0]
    for period, stored_byte_ms in hours:
        requests = period.produce_requests + period.consume_requests
        for position, more in enumerate(
            (period.produce_bytes, period.consume_bytes, requests, int(stored_byte_ms))
        ):
            sums[position] += more
    return sums


def _quantities(sums: Sequence[int], provisioned_bytes: int) -> Quantities:
    produce_bytes, consume_bytes, requests, stored_byte_ms = (max(0, each) for each in sums)
    return Quantities(produce_bytes, consume_bytes, requests, stored_byte_ms, 0, provisioned_bytes)


def _begin_ms(one: Measured) -> int:
    return round(datetime.fromisoformat(one.period.at).timestamp() * 1000)
