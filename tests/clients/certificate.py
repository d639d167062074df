"""What the tier came to, as checked in: a run that comes to something else fails.

`PORTICO_REWRITE=1 ./portico test --tier clients` renews the file from the run, then
`python -m tests.tidy.client_tables --rewrite` the tables of docs/clients.md. `limits.toml` names every cell
that does not hold, and why.
"""

import fcntl
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_HERE: Final = Path(__file__).parent
FILE: Final = _HERE / "certificate.json"
LIMITS: Final = _HERE / "limits.toml"
MATRIX, WAYS_IN, ACCESS = "matrix", "ways in", "access"
"""The tables."""


class Limit(NamedTuple):
    """Cells of one client that do not hold, in all lanes unless they are named. `says` is part of what is
    seen there."""

    client: str
    cells: tuple[str, ...]
    whose: str
    says: str
    why: str
    lanes: tuple[str, ...] = ()

    def covers(self, client: str, lane: str, cell: str) -> bool:
        return self.client == client and cell in self.cells and (not self.lanes or lane in self.lanes)


def limits() -> list[Limit]:
    """As they are named, in order."""
    tables = tomllib.loads(LIMITS.read_text())["limit"]
    return [
        Limit(**{name: tuple(one) if isinstance(one, list) else one for name, one in each.items()})
        for each in tables
    ]


def read() -> dict[str, Any]:
    """By table, client and lane: which cells hold, and in the table of access what a client was told."""
    told: dict[str, Any] = json.loads(FILE.read_text())
    return told


def unnamed(client: str, lane: str, found: Mapping[str, str]) -> list[str]:
    """What a lane came to that no limit names, and limits that are none any more."""
    return complaints_of(limits(), client, lane, found)


def complaints_of(named_ones: Sequence[Limit], client: str, lane: str, found: Mapping[str, str]) -> list[str]:
    """The same of these limits."""
    complaints = []
    for cell, wrong in found.items():
        named = [one for one in named_ones if one.covers(client, lane, cell)]
        if wrong and not any(one.says in wrong for one in named):
            complaints.append(f"{client}, {lane}, {cell}: {wrong}")
        if not wrong and named:
            complaints.append(f"{client}, {lane}, {cell} holds now: {named[0].why}")
    return complaints


def holds(table: str, client: str, version: str, lane: str, found: Mapping[str, bool | str]) -> None:
    """What one lane came to, said when all that is red has a name."""
    told = dict(found)
    if os.environ.get("PORTICO_REWRITE") == "1":
        with FILE.open("a") as lock:  # lanes may be run by several processes
            fcntl.flock(lock, fcntl.LOCK_EX)
            whole = read()
            row = whole.setdefault(table, {}).setdefault(client, {"version": version, "lanes": {}})
            row["version"] = version
            row["lanes"][lane] = told
            FILE.write_text(json.dumps(whole, indent=1) + "\n")
    row = read().get(table, {}).get(client, {})
    assert row.get("version") == version, f"{FILE.name} is of {row.get('version')}: renew it from a run"
    assert row["lanes"].get(lane) == told, f"{FILE.name} says otherwise of {client}: renew it from a run"
