"""Tables for people, JSON for scripts."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console as Terminal
from rich.table import Table

from ctl.errors import CommandError

_UNFOLDED_COLUMNS: Final = 10_000
_GAP: Final = 2
"""Spaces between columns."""
_NUMBER: Final = re.compile(r"\d[\d,.]*(?![\d.]*:)")
"""How cells that are compared by size begin; addresses are none."""


def terminal(*, stderr: bool = False, markup: bool = False) -> Terminal:
    """Where people read. What goes into a pipe or a file is not folded: lines are found again there.

    `markup`: colours by `[green]`, where all that others have named is escaped. A group may be called `[/]`.
    """
    is_screen = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if is_screen else _UNFOLDED_COLUMNS
    return Terminal(stderr=stderr, highlight=False, width=width, markup=markup, emoji=False)


def shown(cell: object) -> str:
    """As text that moves no cursor and rings no bell: names are their tenants' to choose."""
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in str(cell))


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table; numbers to the right. `empty` is said when there is no row."""
    screen = terminal()
    lines = [[shown(cell) for cell in row] for row in rows]
    if not lines:
        screen.print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = _widths([list(columns), *lines], screen.width)
    for position, column in enumerate(columns):
        numeric = all(_NUMBER.match(line[position]) for line in lines)
        table.add_column(column, justify="right" if numeric else "left", width=widths[position])
    for line in lines:
        table.add_row(*line)
    _print_whole(screen, table, widths)


def _widths(cells: Sequence[Sequence[str]], screen_width: int) -> list[int]:
    """Widths that fit the screen if they can: cells are broken between words, never within one, since
    addresses and names are copied. A table that is too wide then runs over the edge."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns
    ]
    while sum(widths) + _GAP * (len(widths) - 1) > screen_width:
        spare = [width - low for width, low in zip(widths, least, strict=True)]
        widest = max(range(len(widths)), key=lambda each: (spare[each] > 0, widths[each]))
        if spare[widest] <= 0:
            break
        widths[widest] -= 1
    return widths


def _print_whole(screen: Terminal, table: Table, widths: Sequence[int]) -> None:
    """Nothing is cut at the edge of the screen."""
    screen.width = max(screen.width, sum(widths) + _GAP * len(widths))
    screen.print(table, crop=False)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Name and value pairs, one a line."""
    screen = terminal()
    lines = [[name, shown(value)] for name, value in facts]
    if not lines:
        return
    widths = _widths(lines, screen.width)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", width=widths[0])
    table.add_column(width=widths[1])
    for line in lines:
        table.add_row(*line)
    _print_whole(screen, table, widths)


class Answer(NamedTuple):
    """What a command found: a document for scripts, and how people are shown it."""

    document: Any
    show: Callable[[], object]
    code: int = 0
    """The command's exit code."""

    def print(self, as_json: bool) -> int:
        """Print the one or the other. Returns the exit code."""
        if as_json:
            print_json(self.document)
        else:
            self.show()
        return self.code

    def print_next(self, as_json: bool) -> int:
        """Print one of several, each document as a line. What has none is for people only."""
        if not as_json:
            self.show()
        elif self.document is not None:
            print(json.dumps(self.document))
        sys.stdout.flush()
        return self.code


class Shortfall(CommandError):  # noqa: N818 - a finding, named as one
    """What was found is printed, and then the sentence that says what is wrong with it."""

    def __init__(self, sentence: str, answer: Answer) -> None:
        super().__init__(sentence)
        self.answer = answer


def in_table(
    document: Any, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, code: int = 0
) -> Answer:
    """An answer that people see as a table."""
    return Answer(document, lambda: print_table(columns, rows, empty=empty), code)


def in_facts(document: Any, facts: Iterable[tuple[str, object]]) -> Answer:
    """An answer that people see as names and values."""
    return Answer(document, lambda: print_facts(facts))
