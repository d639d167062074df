"""The price book, and what a month's quantities cost by it. Exact: integers and decimals, no floats.

A quantity is rounded once, half-even, to six places of its unit. An amount is computed from that quantity
without rounding, tier by tier, and rounded once, half-even, to whole minor units: per line, at the end.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from contracts.billing import HOUR_MS, MIB, SLOT_MS, Dimension, PriceBook
from contracts.units import GB

DEFAULT_PRICES: Final = Path(__file__).with_name("default_prices.toml")
_QUANTITY_STEP: Final = 10**6
_Named = TypeVar("_Named", bound=StrEnum)
_EXACT: Final = Context(prec=120, rounding=ROUND_HALF_EVEN)


class PriceBookError(ValueError):
    """What is wrong with a price book, in a sentence."""


class Bandwidth(StrEnum):
    """Which 95th percentile is billed."""

    LARGER = "larger"
    PRODUCE = "produce"
    CONSUME = "consume"
    TOTAL = "total"
    """The 95th percentile of produce and consume added up slot by slot."""


class TierMode(StrEnum):
    """How a quantity meets several tiers."""

    GRADUATED = "graduated"
    """Each part has the price of its own tier."""
    VOLUME = "volume"
    """All of it has the price of the tier that the whole reaches."""


@dataclass(frozen=True)
class Unit:
    """What one of a dimension's units is in whole base quantities."""

    name: str
    base_per_unit: int


UNITS: Final = {
    Dimension.PRODUCE: Unit("GB", GB),
    Dimension.CONSUME: Unit("GB", GB),
    Dimension.REQUESTS: Unit("million requests", 10**6),
    Dimension.STORAGE: Unit("GB-hours", GB * HOUR_MS),
    Dimension.BANDWIDTH_P95: Unit("MiB/s", MIB * (SLOT_MS // 1000)),
    Dimension.PROVISIONED: Unit("MiB/s-hours", MIB * (HOUR_MS // 1000)),
}


@dataclass(frozen=True)
class Tier:
    """Up to a quantity (None: the rest), the price of one unit."""

    up_to: Decimal | None
    price: Decimal


@dataclass(frozen=True)
class Rate:
    """The price of one dimension."""

    tiers: tuple[Tier, ...]
    mode: TierMode = TierMode.GRADUATED


@dataclass(frozen=True)
class Prices:
    """One price book."""

    currency: str
    minor_unit_digits: int
    effective_from: date
    bandwidth: Bandwidth
    rates: dict[Dimension, Rate]


@dataclass(frozen=True)
class Quantities:
    """What an instance used in a month, in whole base quantities."""

    produce_bytes: int
    consume_bytes: int
    requests: int
    stored_byte_ms: int
    p95_slot_bytes: int
    """Bytes in five minutes: 95th percentile over the month, of what the book says."""
    provisioned_bytes: int
    """Limits (produce and consume, bytes/s) times seconds."""

    def base(self, dimension: Dimension) -> int:
        """The whole quantity of a dimension."""
        return {
            Dimension.PRODUCE: self.produce_bytes,
            Dimension.CONSUME: self.consume_bytes,
            Dimension.REQUESTS: self.requests,
            Dimension.STORAGE: self.stored_byte_ms,
            Dimension.BANDWIDTH_P95: self.p95_slot_bytes,
            Dimension.PROVISIONED: self.provisioned_bytes,
        }[dimension]


@dataclass(frozen=True)
class PricedLine:
    """One dimension of a bill."""

    dimension: Dimension
    base_quantity: int
    quantity: Decimal
    unit: str
    amount_minor: int
    detail: str


def in_effect(books: Iterable[PriceBook], first_day: date) -> PriceBook | None:
    """The version that a month's bills are made with: the newest that holds on its first day."""
    found = [book for book in books if book.effective_from <= first_day]
    return max(found, key=lambda book: book.version, default=None)


def price_month(prices: Prices, used: Quantities) -> tuple[PricedLine, ...]:
    """A line for each dimension that has a price, also of what was not used; see `unpriced`."""
    return tuple(
        _priced(prices, dimension, rate, used.base(dimension)) for dimension, rate in prices.rates.items()
    )


def unpriced(prices: Prices, used: Quantities) -> tuple[Dimension, ...]:
    """What was used and has no price: its bill is held."""
    return tuple(each for each in Dimension if each not in prices.rates and used.base(each))


def in_units(dimension: Dimension, base_quantity: int) -> Decimal:
    """A base quantity in the dimension's unit: six places, half-even. Negative ones round the same way."""
    per_unit = UNITS[dimension].base_per_unit
    steps, rest = divmod(base_quantity * _QUANTITY_STEP, per_unit)
    if 2 * rest > per_unit or (2 * rest == per_unit and steps % 2):
        steps += 1
    return _EXACT.scaleb(Decimal(steps), -6)


def amount_minor(rate: Rate, quantity: Decimal, minor_unit_digits: int) -> int:
    """What a quantity costs, in whole minor units."""
    total = Decimal(0)
    for part, price in _parts(rate, quantity):
        total = _EXACT.add(total, _EXACT.multiply(part, price))
    return int(_EXACT.quantize(_EXACT.scaleb(total, minor_unit_digits), Decimal(1)))


def _priced(prices: Prices, dimension: Dimension, rate: Rate, base_quantity: int) -> PricedLine:
    quantity = in_units(dimension, base_quantity)
    detail = " + ".join(f"{_plain(part)} at {_plain(price)}" for part, price in _parts(rate, quantity))
    amount = amount_minor(rate, quantity, prices.minor_unit_digits)
    return PricedLine(dimension, base_quantity, quantity, UNITS[dimension].name, amount, detail)


def _parts(rate: Rate, quantity: Decimal) -> list[tuple[Decimal, Decimal]]:
    """The quantity, divided among tiers: (part, price of one unit)."""
    if rate.mode is TierMode.VOLUME:
        reached = next(tier for tier in rate.tiers if tier.up_to is None or quantity <= tier.up_to)
        return [(quantity, reached.price)]
    parts: list[tuple[Decimal, Decimal]] = []
    below = Decimal(0)
    for tier in rate.tiers:
        top = quantity if tier.up_to is None else min(quantity, tier.up_to)
        if top > below or not parts:
            parts.append((_EXACT.subtract(top, below), tier.price))
            below = top
    return parts


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_prices(text: str) -> Prices:
    """A price book from its file. Raises: PriceBookError, saying what is wrong with it."""
    try:
        fields = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PriceBookError(f"the price book is not TOML: {error}") from error
    head = {name: value for name, value in fields.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
    _only(head, {"currency", "minor_unit_digits", "effective_from"}, "the price book")
    _only(tables, {str(each) for each in Dimension}, "the price book")
    bandwidth = tables.get(Dimension.BANDWIDTH_P95, {}).pop("of", Bandwidth.LARGER)
    return Prices(
        currency=_currency(head.get("currency")),
        minor_unit_digits=_digits(head.get("minor_unit_digits", 2)),
        effective_from=_effective(head.get("effective_from")),
        bandwidth=_one_of(Bandwidth, bandwidth, "bandwidth_p95.of"),
        rates={each: _rate(each, tables[each]) for each in Dimension if each in tables},
    )


def _only(fields: Mapping[str, object], known: set[str], where: str) -> None:
    if unknown := sorted(set(fields) - known):
        raise PriceBookError(
            f"{where} has an unknown entry '{unknown[0]}': known are {', '.join(sorted(known))}"
        )


def _currency(value: object) -> str:
    if (
        not isinstance(value, str)
        or len(value) != 3
        or not (value.isascii() and value.isalpha() and value.isupper())
    ):
        raise PriceBookError('the price book\'s currency must be three capital letters, such as "USD"')
    return value


def _digits(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 4:
        raise PriceBookError("the price book's minor_unit_digits must be 0 to 4: 2 for cents")
    return value


def _effective(value: object) -> date:
    if type(value) is not date or value.day != 1:
        raise PriceBookError(
            "the price book's effective_from must be the first day of a month, such as 2026-12-01"
        )
    return value


def _one_of(kind: type[_Named], value: object, where: str) -> _Named:
    known = [str(each) for each in kind]
    if value not in known:
        raise PriceBookError(f"{where} must be one of {', '.join(known)}")
    return kind(value)


def _rate(dimension: Dimension, fields: Mapping[str, object]) -> Rate:
    _only(fields, {"price", "tiers", "mode"}, f"[{dimension}]")
    if ("price" in fields) == ("tiers" in fields):
        raise PriceBookError(f"[{dimension}] must have either a price or tiers")
    mode = _one_of(TierMode, fields.get("mode", TierMode.GRADUATED), f"{dimension}.mode")
    if "price" in fields:
        return Rate((Tier(None, _number(fields["price"], f"{dimension}.price")),), mode)
    return Rate(_tiers(dimension, fields["tiers"]), mode)


def _tiers(dimension: Dimension, value: object) -> tuple[Tier, ...]:
    where = f"{dimension}.tiers"
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        raise PriceBookError(
            f"{where} must be a list such as [{{ up_to = 10, price = 0.05 }}, {{ price = 0.04 }}]"
        )
    tiers = []
    for each in value:
        _only(each, {"up_to", "price"}, where)
        up_to = _number(each["up_to"], f"{where}.up_to") if "up_to" in each else None
        tiers.append(Tier(up_to, _number(each.get("price"), f"{where}.price")))
    bounds = [tier.up_to for tier in tiers[:-1]]
    if tiers[-1].up_to is not None or None in bounds:
        raise PriceBookError(f"{where}: the last tier, and only it, has no up_to: it holds for the rest")
    rising = [Decimal(0), *(bound for bound in bounds if bound is not None)]
    if any(high <= low for low, high in pairwise(rising)):
        raise PriceBookError(f"{where}: up_to must grow from tier to tier")
    return tuple(tiers)


def _number(value: object, where: str) -> Decimal:
    if type(value) not in (int, Decimal) or not isinstance(value, int | Decimal):
        raise PriceBookError(f"{where} must be a number")
    number = Decimal(value)
    if not number.is_finite() or number < 0 or number >= 10**15 or number.as_tuple().exponent < -15:  # type: ignore[operator]
        raise PriceBookError(f"{where} must be from 0 to below 10^15, with at most 15 places")
    return number
