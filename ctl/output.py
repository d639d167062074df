"""Tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console as Terminal
from rich.table import Table

_UNFOLDED_COLUMNS: Final = 10_000


def terminal() -> Terminal:
    """Where people read. What goes into a pipe or a file is not folded: lines are found again there."""
    return Terminal(highlight=False, width=None if sys.stdout.isatty() else _UNFOLDED_COLUMNS)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table; numbers to the right. `empty` is said when there is no row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    lines = [[str(cell) for cell in row] for row in rows]
    for position, column in enumerate(columns):
        numeric = bool(lines) and all(line[position][:1].isdigit() for line in lines)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    if lines:
        terminal().print(table)
    else:
        terminal().print(empty)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Name and value pairs, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, str(value))
    terminal().print(table)
