"""The tables of docs/clients.md of what was tried, made from what the tier `clients` came to.

`python -m tests.tidy.client_tables --rewrite` renews what is between the markers; a test compares it.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.clients.certificate import ACCESS, MATRIX, WAYS_IN, Limit, limits, read
from tests.clients.contract import CODECS
from tests.clients.places import BACKENDS, WAYS
from tests.clients.programs import CLIENTS
from tests.tidy.bounds_tables import ROOT, table

PAGE: Final[Path] = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- made by the tier clients: python -m tests.tidy.client_tables --rewrite -->"
END: Final = "<!-- end of what the tier clients made -->"
_COLUMNS: Final = {
    "create a topic": ("create",),
    "produce in every codec": CODECS,
    "consume in a group": ("group",),
    "commit and resume": ("resume",),
    "transactions": ("transactions",),
    "`read_committed`": ("read_committed",),
    "describe, configs, delete": ("describe", "describe_configs", "alter_configs", "delete"),
}
_WAYS: Final = {"tls": "a certificate"}


def rendered() -> str:
    """Everything between the markers."""
    told, named = read(), limits()
    asked = ", ".join(name for name, _ in _rows(told[ACCESS]))
    numbers = {one: str(number) for number, one in enumerate(named, 1)}
    backends = dict.fromkeys(lane.split(",")[0] for row in told[MATRIX].values() for lane in row["lanes"])
    lanes = dict.fromkeys(lane.split(", ")[1] for row in told[MATRIX].values() for lane in row["lanes"])
    return "\n\n".join(
        [
            f"Each at an instance on {' and on '.join(backends)}, by listeners `{'` and `'.join(lanes)}`.",
            _matrix(told[MATRIX], numbers),
            "How they log in:",
            _ways(told[WAYS_IN], numbers),
            "What does not hold, by its number above:",
            "\n".join(f"{numbers[one]}. {one.client}: {one.why} ({one.whose})" for one in named),
            f"What a user with few ACLs is told by {asked}, the same as by an Apache Kafka whose "
            "StandardAuthorizer has the same users, certificates and ACLs:",
            _access(told[ACCESS]),
        ]
    )


def _rows(told: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """In the order of the clients."""
    return ((one.name, told[one.name]) for one in CLIENTS if one.name in told)


def _cell(client: str, cells: tuple[str, ...], lanes: Mapping[str, Any], numbers: Mapping[Limit, str]) -> str:
    """`yes`, or which of the cells hold and what is said of the others."""
    red = [cell for cell in cells if not all(held[cell] for held in lanes.values())]
    if not red:
        return "yes"
    why = dict.fromkeys(
        number for one, number in numbers.items() if one.client == client and {*one.cells} & {*red}
    )
    holds = [cell for cell in cells if cell not in red]
    return f"{', '.join(holds) or 'no'} ({', '.join(why)})"


def _missing(row: Mapping[str, Any]) -> str:
    """Lanes in which it was not run."""
    missing = [f"{one}, {way}" for one in BACKENDS for way in WAYS if f"{one}, {way}" not in row["lanes"]]
    return f" (not run: {'; '.join(missing)})" if missing else ""


def _matrix(told: Mapping[str, Any], numbers: Mapping[Limit, str]) -> str:
    return table(
        ("client", "version", *_COLUMNS),
        (
            (
                name,
                row["version"] + _missing(row),
                *(_cell(name, cells, row["lanes"], numbers) for cells in _COLUMNS.values()),
            )
            for name, row in _rows(told)
        ),
    )


def _ways(told: Mapping[str, Any], numbers: Mapping[Limit, str]) -> str:
    ways = list(next(iter(told.values()))["lanes"][WAYS_IN])
    return table(
        ("client", *(_WAYS.get(way, way) for way in ways)),
        ((name, *(_cell(name, (way,), row["lanes"], numbers) for way in ways)) for name, row in _rows(told)),
    )


def _access(told: Mapping[str, Any]) -> str:
    """What most of the clients are told of each case, and who has another name for it."""
    lanes = [(name, lane) for name, row in _rows(told) for lane in row["lanes"].values()]

    def cell(case: str) -> str:
        names = Counter(lane[case] for _, lane in lanes)
        ((common, _),) = names.most_common(1)
        others = dict.fromkeys(f"{name}: {lane[case]}" for name, lane in lanes if lane[case] != common)
        return "; ".join([common, *others])

    return table(("what", "what they are told"), ((case, cell(case)) for case in lanes[0][1]))


def of_page(text: str) -> str:
    """What stands between the markers of a page."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip()


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        raise SystemExit("usage: python -m tests.tidy.client_tables --rewrite")
    before, behind = PAGE.read_text().split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{behind.split(END, 1)[1]}")
