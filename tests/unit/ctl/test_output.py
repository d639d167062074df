"""Tables for people: nothing that is copied is broken, nothing is cut."""

import pytest
from rich.console import Console as Terminal

from contracts.units import counted, format_duration, parse_duration_ms
from ctl import output
from ctl.console_client import _option
from ctl.stack.metrics_plan import planned_port, ports_needed, targets
from ctl.stack.steps import named

COLUMNS = ["ID", "NAME", "STATE", "BOOTSTRAP SERVERS", "MEANING"]
ROW = [
    "iabcdefghijk",
    "orders",
    "running",
    "kafka-17.eu-west.example.org:29876",
    "what is said here is long " * 4,
]


@pytest.mark.parametrize("width", [40, 80, 100, 10_000])
def test_no_cell_is_broken_within_a_word(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "terminal", lambda: Terminal(highlight=False, width=width))
    output.print_table(COLUMNS, [ROW], empty="")
    output.print_facts([("bootstrap servers", ",".join([ROW[3]] * 3)), ("state", "running")])
    shown = capsys.readouterr().out
    for word in (*ROW[:4], *ROW[4].split(), ",".join([ROW[3]] * 3)):
        assert word in shown, word
    assert "…" not in shown
    assert shown.split().count("said") == 4


def test_addresses_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(
        ["ADDRESS", "SIZE"], [["127.0.0.1:9", "9 kB"], ["127.0.0.1:29999", "12.5 MB"]], empty=""
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("127.0.0.1:9 ") and lines[1].endswith("   9 kB")


def test_what_is_counted() -> None:
    assert [counted(n, "topic") for n in (0, 1, 2, 12_000)] == [
        "0 topics",
        "1 topic",
        "2 topics",
        "12,000 topics",
    ]


@pytest.mark.parametrize("text", ["0", "7d", "36h", "90m", "5s", "1500ms"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    assert format_duration(parse_duration_ms(text)) == text


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("capacity_bytes", "--capacity"),
        ("limits.partitions_max", "--partitions-max"),
        ("whitelist.0", "--whitelist"),
        ("configs.retention.ms", "--config retention.ms"),
        ("cursor", "cursor"),
    ],
)
def test_fields_are_shown_as_options(field: str, option: str) -> None:
    assert _option(field) == option


def test_every_process_has_a_port_of_the_plan() -> None:
    names = ["control", *(f"broker-{n}" for n in range(1, 10)), *(f"gateway-{n}" for n in range(256))]
    ports = [planned_port(9400, name) for name in names]
    assert ports[:2] == [9400, 9401] and planned_port(9400, "gateway-0") == 9410
    assert len(set(ports)) == len(ports) and max(ports) == 9400 + ports_needed(256) - 1
    assert {planned_port(0, name) for name in names} == {0}


def test_targets_are_in_the_format_of_file_sd() -> None:
    (group,) = targets({"broker-2": "http://[::1]:9402/metrics"}, "builtin-1")
    labels = {"__metrics_path__": "/metrics", "process": "broker-2", "kind": "broker", "cluster": "builtin-1"}
    assert group == {"targets": ["[::1]:9402"], "labels": labels}


def test_processes_are_named_shortly() -> None:
    assert named(["control"]) == "control"
    assert named(["gateway-0", "broker-1", "control"]) == "broker-1, control and gateway-0"
    assert named([f"gateway-{n}" for n in range(12)]) == "12 of gateway-0 to gateway-11"


@pytest.mark.parametrize("name", ["[/]", "[/PATH]", "[red]x[/red]", ":warning:", "\x1b[2J\x07", "a\u202eb"])
def test_a_name_is_text_and_moves_no_cursor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenant's group, which an operator lists."""
    output.print_table(["GROUP", "STATE"], [[name, "Stable"]], empty="")
    output.print_facts([("group", name)])
    output.terminal().print(f"group {output.shown(name)}")
    told = capsys.readouterr().out
    assert told.isascii() and all(each.isprintable() for each in told.replace("\n", ""))
    assert told.count(name if name.isprintable() else repr(name)[1:-1]) == 3
