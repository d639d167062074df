"""Commands about bills that need no Spark: the price book, and wrong usage in one sentence."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ctl.commands.pipeline import app
from ctl.errors import EXIT_FAILED, EXIT_USAGE, CommandError

PRICES = 'currency = "EUR"\neffective_from = 2026-12-01\n[produce]\nprice = 0.04\n'


def portico(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data-dir", str(data_dir)])


def failure(result: Result) -> tuple[str, int]:
    assert isinstance(result.exception, CommandError)
    return result.exception.sentence, result.exception.code


def test_prices_are_shown_as_the_file_that_sets_them(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(portico(tmp_path, "prices", "show").stdout)
    assert "currency" in file.read_text()
    assert portico(tmp_path, "prices", "set", str(file)).stdout.endswith("USD: unchanged\n")
    file.write_text(PRICES)
    new = json.loads(portico(tmp_path, "prices", "set", str(file), "--json").stdout)
    assert (new["version"], new["currency"], new["effective_from"], new["new"]) == (
        2,
        "EUR",
        "2026-12-01",
        True,
    )
    assert portico(tmp_path, "prices", "show").stdout == PRICES
    assert "USD" in portico(tmp_path, "prices", "show", "--version", "1").stdout


def test_a_price_book_that_cannot_be_used_fails_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    assert failure(portico(tmp_path, "prices", "set", str(file)))[0].startswith(f"cannot read {file}")
    file.write_bytes(b"\xff\xfe")
    assert "cannot read" in failure(portico(tmp_path, "prices", "set", str(file)))[0]
    file.write_text(PRICES.replace("price", "prise"))
    assert failure(portico(tmp_path, "prices", "set", str(file))) == (
        "[produce] has an unknown entry 'prise': known are mode, price, tiers",
        EXIT_FAILED,
    )
    assert "versions 1 to 1, not 7" in failure(portico(tmp_path, "prices", "show", "--version", "7"))[0]
    assert "no data directory" in failure(portico(tmp_path / "away", "prices", "show"))[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bill", "--month", "november"], "'november' is not a month: write it like 2026-11"),
        (["close", "--month", "2026-13"], "'2026-13' is not a month"),
        (["reconcile", "--month", "2026-1"], "'2026-1' is not a month"),
        (["rollup", "--day", "2026-02-30"], "'2026-02-30' is not a day"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(arguments: list[str], says: str, tmp_path: Path) -> None:
    sentence, code = failure(portico(tmp_path, *arguments))
    assert says in sentence
    assert code == EXIT_USAGE


def test_nothing_is_closed_where_nothing_was_metered(tmp_path: Path) -> None:
    figures = json.loads(portico(tmp_path, "close", "--json").stdout)
    assert (figures["closed"], figures["waiting"]) == (0, [])
