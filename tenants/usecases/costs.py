"""What the month that goes on costs an instance, before it is settled."""

import asyncio
from functools import cache
from typing import NamedTuple

from contracts.billing import PRICE_BOOK, PriceBook
from contracts.prices import DEFAULT_PRICES, PriceBookError, Prices, in_effect, parse_prices
from tenants.pipeline_tables import DeltaTables, columns_of, converted
from tenants.rules import costs
from tenants.rules.costs import Costs, Lived, Month
from tenants.rules.errors import Unavailable
from tenants.rules.usage_periods import Span
from tenants.usecases.usage import UsageReports


class MonthCosts(NamedTuple):
    """With the prices that they are by."""

    month: Month
    prices: Prices
    price_version: int | None
    """None: no price book is set yet. They are by the default, which the first bill makes version 1."""
    costs: Costs


class PricesOf(NamedTuple):
    """What holds in a month."""

    prices: Prices
    version: int | None
    """None: the default, as no price book is set yet."""


class CostReports:
    """Raises: Unavailable."""

    def __init__(self, source: DeltaTables, usage: UsageReports) -> None:
        self._tables = source
        self._usage = usage

    async def of_month(self, instance_id: str, lived: Lived, now_ms: int) -> MonthCosts | None:
        """The month that `now_ms` lies in. None: no usage is known, or no price book is in effect."""
        month = costs.month_of(now_ms)
        held = await self.prices_of(month)
        hours = await self._usage.hours(
            instance_id, Span(costs.first_asked_ms(month, now_ms), now_ms), now_ms
        )
        if not hours or held is None:
            return None
        told = await asyncio.to_thread(costs.costs, held.prices, hours, month, lived, now_ms)
        return MonthCosts(month, held.prices, held.version, told)

    async def prices_of(self, month: Month) -> PricesOf | None:
        """None: there are price books, and none is in effect in the month yet."""
        sql = f"select {columns_of(PriceBook)} from {PRICE_BOOK}"
        books = converted(await self._tables.rows(PRICE_BOOK, sql) or [], PriceBook)
        if not books:
            return PricesOf(_default(), None)
        book = in_effect(books, month.first_day)
        return None if book is None else PricesOf(_parsed(book), book.version)


def _parsed(book: PriceBook) -> Prices:
    try:
        return parse_prices(book.text)
    except PriceBookError as error:
        raise Unavailable(f"version {book.version} of the price book cannot be read: {error}") from error


@cache
def _default() -> Prices:
    return parse_prices(DEFAULT_PRICES.read_text(encoding="utf-8"))
