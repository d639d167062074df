"""A bill as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification. Pure.

The tenant is the billing account, for a bill is made out to it; the instance is the resource, a dimension
the SKU, and one price of it the SKU price. A line is a row for each tier that it reached, so that unit price
times quantity is the list cost; billed costs are in whole minor units and add up to the bill. An adjustment
is a correction of the month that it is of.

Every column of the specification is there; of those that say what Portico does not have (commitments,
reservations, regions, tags) all cells are empty, which is null. One is ours, `x_BillState`: the invoice of a
month that goes on is a provisional one, with the id that it will have when it is closed.
"""

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from contracts.billing import Adjustment, Bill, BillLine, Dimension
from tenants.rules.money import major_units

_PROVIDER: Final = "Portico"
_PART: Final = re.compile(r"(\d+(?:\.\d+)?) at (\d+(?:\.\d+)?)", re.ASCII)
_EXACT: Final = Context(prec=120, rounding=ROUND_HALF_EVEN)
"""A bill's own arithmetic, so that costs are its costs to the last place."""
_UNITS: Final = {
    Dimension.PRODUCE: "GB",
    Dimension.CONSUME: "GB",
    Dimension.REQUESTS: "1000000 Requests",
    Dimension.STORAGE: "GB-Hours",
    Dimension.BANDWIDTH_P95: "MiB/Second",
    Dimension.PROVISIONED: "3600 MiB",
}
"""As the specification writes units; it has no word for MiB/s-hours, which are 3,600 MiB each."""
_METERS: Final = {
    Dimension.PRODUCE: "Data produced",
    Dimension.CONSUME: "Data consumed",
    Dimension.REQUESTS: "Produce and fetch requests",
    Dimension.STORAGE: "Data stored",
    Dimension.BANDWIDTH_P95: "95th percentile of bandwidth",
    Dimension.PROVISIONED: "Bandwidth provisioned",
}
COLUMNS: Final = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_BillState",
)


def focus_rows(
    bill: Bill, lines: tuple[BillLine, ...], adjustments: tuple[Adjustment, ...], *, tenant: str, name: str
) -> Iterator[tuple[str, ...]]:
    """The rows of one bill, their cells in the order of `COLUMNS`; an empty cell is null."""
    begins, ends = _period(bill.month)
    shared = {
        "BillingAccountId": tenant,
        "BillingAccountName": tenant,
        "BillingAccountType": "Tenant",
        "BillingPeriodStart": begins,
        "BillingPeriodEnd": ends,
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "InvoiceId": f"{bill.month}/{bill.instance_id}",
        "InvoiceIssuerName": _PROVIDER,
        "PricingCategory": "Standard",
        "ProviderName": _PROVIDER,
        "PublisherName": _PROVIDER,
        "ResourceId": bill.instance_id,
        "ResourceName": name,
        "ResourceType": "Kafka instance",
        "ServiceCategory": "Integration",
        "ServiceName": "Portico Kafka",
        "ServiceSubcategory": "Messaging",
        "x_BillState": bill.state.value,
    }
    for line in lines:
        for own in _of_line(line, bill.minor_unit_digits):
            yield _row(shared | _of_what(line) | own)
    for adjustment in adjustments:
        yield _row(shared | _of_what(adjustment) | _of_adjustment(adjustment, bill.minor_unit_digits))


def parts_of(detail: str) -> list[tuple[Decimal, Decimal]]:
    """What a line's `detail` says: the quantity in each tier, and the price of one unit there."""
    found = [_PART.fullmatch(part) for part in detail.split(" + ")]
    assert None not in found, f"a bill's line says how it came about, not {detail!r}"
    return [(Decimal(part[1]), Decimal(part[2])) for part in found if part is not None]


def _of_what(one: BillLine | Adjustment) -> dict[str, str]:
    begins, ends = _period(one.month)
    return {
        "BillingCurrency": one.currency,
        "PricingCurrency": one.currency,
        "ChargePeriodStart": begins,
        "ChargePeriodEnd": ends,
        "ConsumedUnit": _UNITS[one.dimension],
        "PricingUnit": _UNITS[one.dimension],
        "SkuId": one.dimension.value,
        "SkuMeter": _METERS[one.dimension],
    }


def _of_line(line: BillLine, digits: int) -> Iterator[dict[str, str]]:
    parts = parts_of(line.detail)
    exact, billed_before = Decimal(0), 0
    for tier, (quantity, price) in enumerate(parts, 1):
        cost = _EXACT.multiply(quantity, price)
        exact = _EXACT.add(exact, cost)
        rounded = int(_EXACT.quantize(_EXACT.scaleb(exact, digits), Decimal(1)))
        billed_until = line.amount_minor if tier == len(parts) else rounded
        billed = major_units(billed_until - billed_before, digits)
        billed_before = billed_until
        yield {
            **_costs(billed),
            "ListCost": f"{cost:f}",
            "ContractedCost": f"{cost:f}",
            "ListUnitPrice": f"{price:f}",
            "ContractedUnitPrice": f"{price:f}",
            "PricingCurrencyListUnitPrice": f"{price:f}",
            "PricingCurrencyContractedUnitPrice": f"{price:f}",
            "ChargeDescription": f"{line.dimension.value}, {quantity:f} {line.unit} at {price:f}",
            "ConsumedQuantity": f"{quantity:f}",
            "PricingQuantity": f"{quantity:f}",
            "SkuPriceId": f"{line.dimension.value}/{line.price_version}/{price:f}",
        }


def _of_adjustment(adjustment: Adjustment, digits: int) -> dict[str, str]:
    return {
        **_costs(major_units(adjustment.amount_delta_minor, digits)),
        "ChargeClass": "Correction",
        "ChargeDescription": f"{adjustment.dimension.value}, {adjustment.reason}",
        "ConsumedQuantity": f"{adjustment.quantity_delta:f}",
        "PricingQuantity": f"{adjustment.quantity_delta:f}",
    }


def _costs(billed: str) -> dict[str, str]:
    """Nothing is discounted or paid ahead, so that all of them are the billed one until a row says more."""
    names = ("BilledCost", "EffectiveCost", "PricingCurrencyEffectiveCost", "ListCost", "ContractedCost")
    return dict.fromkeys(names, billed)


def _period(month: str) -> tuple[str, str]:
    """Begin, and end exclusive."""
    year, number = map(int, month.split("-"))
    after = f"{year + 1:04}-01" if number == 12 else f"{year:04}-{number + 1:02}"
    return f"{month}-01T00:00:00Z", f"{after}-01T00:00:00Z"


def _row(cells: dict[str, str]) -> tuple[str, ...]:
    return tuple(cells.get(column, "") for column in COLUMNS)
