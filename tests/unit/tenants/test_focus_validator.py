"""Bills as FOCUS, before the validator of those who wrote the specification.

It needs Python 3.12 and other packages than ours, so that it has an environment of its own; the rules are in
its package, and nothing is asked of a network but the Python package index.
"""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from contracts.billing import BillState
from contracts.prices import DEFAULT_PRICES, Quantities, parse_prices, price_month
from tenants.rules.focus import COLUMNS, focus_rows

from . import metered

_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("focus-validator==2.2.1", "pyarrow==20.0.0")
"""It asks for numpy before 2 and for any pyarrow, the newest of which takes only a later one."""
_START = """
import os, pathlib, focus_validator
os.chdir(pathlib.Path(focus_validator.__file__).parents[1])  # it looks for codes of currencies from there
from focus_validator.main import main
main()
"""
_CRITERIA = (
    "ACCOUNT_NAMING_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED",
    "UNIT_PRICING_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
)
"""What Portico has of what a provider may have."""
_THE_OTHER_ALTERNATIVE = "InvoiceId-C-004-C"
"""Null where there is no invoice: asked of every row, as is InvoiceId-C-005-C, not null where there is."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_validator_finds_nothing(tmp_path: Path) -> None:
    found, told = _validated(tmp_path)
    failed = {rule for rule, status in found.items() if status == "FAIL"}
    assert failed == {_THE_OTHER_ALTERNATIVE}, told
    for rule in ("InvoiceId-C-000-O", "InvoiceId-C-003-C", "InvoiceId-C-005-C", "BilledCost-C-000-M"):
        assert found[rule] == "PASS", f"{rule}: {found[rule]}"
    assert sum(status == "PASS" for status in found.values()) >= 229


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_validator_finds_what_is_wrong(tmp_path: Path) -> None:
    found, _ = _validated(tmp_path, BillingCurrency="dollars", ChargeCategory="Use")
    failed = {rule.split("-")[0] for rule, status in found.items() if status == "FAIL"}
    assert {"BillingCurrency", "ChargeCategory"} <= failed


def _validated(folder: Path, **changes: str) -> tuple[dict[str, str], str]:
    """Rule -> PASS, FAIL or SKIPPED, of bills of all kinds with some cells changed, and what was said."""
    file = folder / "focus.csv"
    with file.open("w", newline="") as written:
        writer = csv.DictWriter(written, COLUMNS)
        writer.writeheader()
        writer.writerows(row | changes for row in _rows())
    uv = shutil.which("uv") or str(_ROOT / ".uv" / "bin" / "uv")
    command = [uv, "run", "-q", "--isolated", "--no-project", "--python", _python()]
    command += [argument for package in _PACKAGES for argument in ("--with", package)]
    command += ["python", "-c", _START, "--data-file", str(file), "--validate-version", "1.2"]
    command += ["--block-download", "--applicability-criteria", ",".join(_CRITERIA)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(re.findall(r"^\S+ (\S+): (PASS|FAIL|SKIPPED)", done.stdout, re.MULTILINE)), done.stdout[
        -3000:
    ]


def _python() -> str:
    """Of 3.12: the numpy that the validator wants is built for no later one."""
    kept = (str(each) for each in Path.home().glob(".pyenv/versions/3.12*/bin/python"))
    for each in ("python3.12", *kept):
        try:
            told = subprocess.run([each, "-V"], capture_output=True, text=True, timeout=60, check=False)
        except FileNotFoundError:
            continue
        if told.stdout.startswith("Python 3.12."):
            return each
    pytest.fail("the validator needs Python 3.12")


def _rows() -> list[dict[str, str]]:
    """A closed bill with every dimension, tiers and an adjustment, and an open one."""
    used = Quantities(
        1234 * 10**9 + 567,
        2500 * 10**9,
        123_456_789,
        50 * 10**9 * 720 * 3_600_000,
        300 * 7 * 2**20,
        60 * 2**20 * 2_592_000,
    )
    lines = tuple(
        metered.line(
            "i1",
            one.dimension,
            one.amount_minor,
            quantity=one.quantity,
            detail=one.detail,
            unit=one.unit,
        )
        for one in price_month(parse_prices(DEFAULT_PRICES.read_text()), used)
    )
    late = (metered.adjustment("i1", "2026-09", "2026-10", -10),)
    bills = (metered.bill("i1"), metered.bill("i2", state=BillState.OPEN))
    return [
        dict(zip(COLUMNS, row, strict=True))
        for bill in bills
        for row in focus_rows(bill, lines, late, tenant="acme", name="shop")
    ]
