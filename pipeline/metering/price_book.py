"""The versions of the price book: kept for ever, as bills name them."""

import msgspec

from contracts.billing import PriceBook
from contracts.prices import DEFAULT_PRICES, PriceBookError, parse_prices
from pipeline.errors import PipelineError
from pipeline.layout import PipelineLayout
from pipeline.metering.amounts.bills import PricedBook, priced
from pipeline.metering.ledger import Ledger
from pipeline.metering.versioned_tables import leases


def priced_books(ledger: Ledger, now_ms: int) -> list[PricedBook]:
    """All versions, oldest first; where there is none, the default becomes version 1. Needs the lease."""
    books = ledger.price_books()
    if not books:
        books = [_book(1, DEFAULT_PRICES.read_text(), now_ms)]
        ledger.add_price_book(books[0])
    return [priced(book) for book in books]


def set_prices(layout: PipelineLayout, text: str, now_ms: int) -> tuple[PriceBook, bool]:
    """Make a file the newest version, unless it is that already: (version, whether it is new).

    Bills that are closed keep the version they were made with. Raises: PipelineError.
    """
    try:
        parse_prices(text)
    except PriceBookError as error:
        raise PipelineError(str(error)) from error
    ledger = Ledger(layout)
    with leases([ledger.bills], "new prices"):
        newest = priced_books(ledger, now_ms)[-1].row
        if newest.text == text:
            return newest, False
        book = _book(newest.version + 1, text, now_ms)
        ledger.add_price_book(book)
        return book, True


def shown_books(layout: PipelineLayout) -> list[PriceBook]:
    """All versions, oldest first, for people: before the first bill the default that it will be made with."""
    ledger = Ledger(layout)
    return ledger.price_books() or [_book(1, DEFAULT_PRICES.read_text(), 0)]


def _book(version: int, text: str, now_ms: int) -> PriceBook:
    prices = parse_prices(text)
    return PriceBook(
        version=version,
        effective_from=prices.effective_from,
        currency=prices.currency,
        minor_unit_digits=prices.minor_unit_digits,
        text=text,
        set_at_ms=now_ms,
    )


def book_text(book: PriceBook) -> str:
    """One line about a version."""
    fields = msgspec.structs.asdict(book)
    return "version {version}, in effect from {effective_from} (UTC), {currency}".format(**fields)
