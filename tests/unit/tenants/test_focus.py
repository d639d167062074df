"""Bills as FOCUS rows, worked by hand."""

import re
from decimal import Decimal

from contracts.billing import Adjustment, Bill, BillLine, BillState, Dimension
from contracts.prices import DEFAULT_PRICES, Quantities, parse_prices, price_month
from tenants.rules.focus import COLUMNS, focus_rows, parts_of

from . import metered


def rows(bill: Bill, lines: list[BillLine], adjustments: list[Adjustment]) -> list[dict[str, str]]:
    found = focus_rows(bill, tuple(lines), tuple(adjustments), tenant="acme", name="shop")
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def test_a_line_is_a_row_for_each_tier_and_they_add_up_to_its_amount() -> None:
    """1,000 at 0.0333335 is 33.3335, 0.5 at 0.04 is 0.02: together 33.3535, 33.35 on the bill."""
    line = metered.line("i1", Dimension.CONSUME, 3335, detail="1000 at 0.0333335 + 0.5 at 0.04")
    first, second = rows(metered.bill("i1"), [line], [])
    assert [row["BilledCost"] for row in (first, second)] == ["33.33", "0.02"]
    assert Decimal(first["ListCost"]) == Decimal("33.3335")
    assert Decimal(first["ListUnitPrice"]) * Decimal(first["PricingQuantity"]) == Decimal(first["ListCost"])
    assert (first["ChargeCategory"], first["ChargeClass"], first["PricingUnit"]) == ("Usage", "", "GB")
    assert (second["SkuId"], second["SkuPriceId"]) == ("consume", "consume/1/0.04")
    assert (first["BillingAccountId"], first["ResourceId"], first["ResourceName"]) == ("acme", "i1", "shop")
    assert (first["ChargePeriodStart"], first["ChargePeriodEnd"]) == (
        "2026-10-01T00:00:00Z",
        "2026-11-01T00:00:00Z",
    )


def test_an_adjustment_is_a_correction_of_its_own_month_on_the_bill_of_another() -> None:
    late = metered.adjustment("i1", "2026-12", "2027-01", -45)
    [row] = rows(metered.bill("i1", "2027-01"), [], [late])
    assert (row["ChargeCategory"], row["ChargeClass"], row["BilledCost"]) == (
        "Usage",
        "Correction",
        "-0.45",
    )
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == (
        "2026-12-01T00:00:00Z",
        "2027-01-01T00:00:00Z",
    )
    assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == (
        "2027-01-01T00:00:00Z",
        "2027-02-01T00:00:00Z",
    )
    assert (row["ConsumedQuantity"], row["ConsumedUnit"], row["PricingQuantity"]) == (
        "-1.000000",
        "GB",
        "-1.000000",
    )


def test_what_the_pipeline_writes_is_understood() -> None:
    prices = parse_prices(DEFAULT_PRICES.read_text())
    for used in (Quantities(0, 0, 0, 0, 0, 0), Quantities(*(10**17 + 7 for _ in Dimension))):
        for line in price_month(prices, used):
            assert sum(part for part, _ in parts_of(line.detail)) == line.quantity


def test_an_open_bill_is_the_provisional_invoice_that_will_be_closed() -> None:
    line = metered.line("i1", Dimension.PRODUCE, 700, detail="140 at 0.05")
    [closed] = rows(metered.bill("i1"), [line], [])
    [still_open] = rows(metered.bill("i1", state=BillState.OPEN), [line], [])
    assert closed["InvoiceId"] == still_open["InvoiceId"] == "2026-10/i1"
    assert (closed["x_BillState"], still_open["x_BillState"]) == ("closed", "open")


def test_costs_are_exact_however_large() -> None:
    detail = "999999999999999.999999 at 0.000000000000001"
    [row] = rows(metered.bill("i1"), [metered.line("i1", Dimension.REQUESTS, 100, detail=detail)], [])
    assert row["ListCost"] == "0.999999999999999999999"
    assert row["BilledCost"] == "1.00"


def test_what_the_specification_demands_of_every_row() -> None:
    """Version 1.2, as its validator reads it: what is never null, and how units and times are written."""
    lines = [metered.line("i1", each, 700, detail="140 at 0.05") for each in Dimension]
    found = rows(metered.bill("i1"), lines, [metered.adjustment("i1", "2026-09", "2026-10", -45)])
    never_null = (
        *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
        *("BillingPeriodStart", "ChargeCategory", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd"),
        *("ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost"),
        *("PricingCurrency", "PricingCurrencyEffectiveCost", "ProviderName", "PublisherName"),
        *("ServiceCategory", "ServiceName", "ServiceSubcategory"),
    )
    size, time = r"([KMGTPE]i?)?B", r"(Year|Month|Day|Hour|Minute|Second)"
    unit = re.compile(rf"(\d+ )?(({size}|Requests)(-{time}s|/{time})?)")
    for row in found:
        assert [each for each in never_null if not row[each]] == []
        assert unit.fullmatch(row["PricingUnit"]) and row["ConsumedUnit"] == row["PricingUnit"]
        for name in (each for each in COLUMNS if each.endswith(("PeriodStart", "PeriodEnd"))):
            assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", row[name])
        if not row["ChargeClass"]:
            product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
            assert product == Decimal(row["ListCost"]) == Decimal(row["ContractedCost"])
            assert row["SkuPriceId"]
