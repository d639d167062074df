"""`portico bill`: tables for people, and files as the console writes them."""

import httpx
import pytest

from ctl.commands.bill import FileFormat, estimate, list_bills, show
from ctl.console_client import Console
from ctl.errors import CommandError

BILL = {
    "month": "2026-11",
    "state": "open",
    "name": "shop",
    "tenant": "acme",
    "currency": "USD",
    "minor_unit_digits": 2,
    "lines_minor": 123_500,
    "adjustments_minor": -45,
    "total_minor": 123_455,
    "estimated": True,
    "hold_reason": "",
}
LINE = {
    "dimension": "produce",
    "quantity": "2.000000",
    "unit": "GB",
    "amount_minor": 123_500,
    "detail": "2 at 0.05",
}
ADJUSTMENT = {
    "month": "2026-10",
    "dimension": "produce",
    "quantity_delta": "-1.000000",
    "unit": "GB",
    "amount_delta_minor": -45,
    "reason": "late reports",
}
COSTS = {
    "available": True,
    "month": "2026-11",
    "known_until": "2026-11-26T10:00:00Z",
    "currency": "USD",
    "minor_unit_digits": 2,
    "price_version": None,
    "so_far_minor": 1000,
    "projected_minor": None,
    "lines": [
        {
            "dimension": "produce",
            "unit": "GB",
            "quantity": "200.000000",
            "amount_minor": 1000,
            "projected_quantity": None,
            "projected_minor": None,
        }
    ],
    "left_out": [{"dimension": "bandwidth_p95", "reason": "the bill has it"}],
}
FOCUS = 'BilledCost,ResourceName\r\n-0.45,"a\nb"\r\n'


def _answer(request: httpx.Request) -> httpx.Response:
    if request.url.params.get("format"):
        return httpx.Response(200, text=FOCUS, headers={"content-type": "text/csv"})
    match request.url.path:
        case "/v1/bills" | "/v1/instances/shop/bills":
            return httpx.Response(200, json={"items": [BILL], "hint": None})
        case "/v1/instances/shop/bills/2026-11":
            return httpx.Response(200, json=BILL | {"lines": [LINE], "adjustments": [ADJUSTMENT]})
        case "/v1/instances/shop/costs":
            return httpx.Response(200, json=COSTS)
        case "/v1/instances/new/costs":
            return httpx.Response(200, json={"available": False, "hint": "nothing is known yet"})
        case "/v1/instances/new/bills":
            return httpx.Response(200, json={"items": [], "hint": None})
    return httpx.Response(404, json={"detail": f"nothing at {request.url.path}"})


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def console(asked: list[str]) -> Console:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return _answer(request)

    made = Console.at("http://console", "key", "acme")
    made._http = httpx.Client(base_url="http://console", transport=httpx.MockTransport(answer))
    return made


def test_a_table_of_bills(console: Console, capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    list_bills(console, month="2026-11").print(as_json=False)
    assert asked == ["/v1/bills?month=2026-11&tenant=acme"]
    assert "1,234.55 USD" in capsys.readouterr().out


def test_the_newest_bill_line_by_line(
    console: Console, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    show(console, "shop").print(as_json=False)
    assert asked[-1] == "/v1/instances/shop/bills/2026-11?tenant=acme"
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "state open (estimated)" in lines
    assert "produce 2.000000 GB 2 at 0.05 1,235.00 USD" in lines
    assert "2026-10 produce -1.000000 GB late reports -0.45 USD" in lines
    assert lines[-1] == "total 1,234.55 USD"
    with pytest.raises(CommandError, match="new has no bills yet"):
        show(console, "new")


def test_a_file_is_as_the_console_wrote_it(
    console: Console, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    for found in (
        list_bills(console, month="2026-11", file_format=FileFormat.FOCUS),
        show(console, "shop", "2026-11", file_format=FileFormat.FOCUS),
    ):
        assert "format=focus" in asked[-1]
        found.print(as_json=False)
        assert capsys.readouterr().out == FOCUS
        assert found.document == [{"BilledCost": "-0.45", "ResourceName": "a\nb"}]


def test_what_the_month_costs_so_far(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    estimate(console, "shop").print(as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "month 2026-11 (provisional, known until 2026-11-26T10:00:00Z)" in lines
    assert "produce 200.000000 GB 10.00 USD - -" in lines
    assert lines[-2:] == ["total 10.00 USD -", "not in it: bandwidth_p95, the bill has it"]
    estimate(console, "new").print(as_json=False)
    assert capsys.readouterr().out == "nothing is known yet\n"


def test_all_months_of_an_instance_are_no_focus(console: Console, asked: list[str]) -> None:
    for unfit in ({"month": "2026-11"}, {"file_format": FileFormat.FOCUS}):
        with pytest.raises(CommandError, match="portico bill show ID YYYY-MM"):
            list_bills(console, "shop", **unfit)
    assert asked == []
