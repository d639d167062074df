"""`portico config`: the settings in force and where they come from."""

import json
import os
from pathlib import Path
from typing import Any

from ctl.command import Commands
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import Answer, print_table, terminal
from ctl.stack.layout import Layout
from ctl.stack.settings import SETTINGS, load, of_json, plain
from runtime.config import ConfigFault, Resolved

app = Commands()


@app.command()
def show(data_dir: DataDir = DEFAULT_DATA_DIR) -> Answer:
    """Print every setting, its value and its origin (flag > PORTICO_* > portico.toml > default).

    Of the stack that runs on the data directory; of the next start where none runs.
    """
    try:
        next_values = load(data_dir, {})
    except ConfigFault as fault:
        raise usage("; ".join(fault.faults)) from fault
    running = _running(data_dir)
    values = next_values if running is None else running
    changed = {} if running is None else _changed(running, next_values)
    document = {
        name: {"value": plain(found.value), "origin": found.origin}
        | ({"next": plain(changed[name].value)} if name in changed else {})
        for name, found in values.items()
    }
    place = f"the stack that runs on {data_dir}" if running else f"the next start on {data_dir}"
    return Answer(document, lambda: _show(values, place, changed))


def _show(values: dict[str, Resolved], place: str, changed: dict[str, Resolved]) -> None:
    rows = ([s.name, _text(s.name, values[s.name]), values[s.name].origin, s.help] for s in SETTINGS)
    print_table(["SETTING", "VALUE", "ORIGIN", "MEANING"], rows, empty="")
    terminal().print(f"\nThese are the settings of {place}.")
    for name, found in changed.items():
        terminal().print(f"{name} is {_text(name, found)} ({found.origin}) from the next start on.")


def _running(data_dir: Path) -> dict[str, Resolved] | None:
    """What the running stack was started with; None where none runs."""
    try:
        stack: dict[str, Any] = json.loads(Layout(data_dir).stack_file.read_text())
        os.kill(stack["supervisor"], 0)
        return of_json(stack["settings"])
    except (OSError, ValueError, KeyError):
        return None


def _changed(running: dict[str, Resolved], following: dict[str, Resolved]) -> dict[str, Resolved]:
    """What was changed since the start. A flag is given again at the next, as far as anybody knows."""
    return {
        name: found
        for name, found in following.items()
        if not running[name].origin.startswith("--")
        and json.dumps(plain(found.value)) != json.dumps(plain(running[name].value))
    }


def _text(name: str, found: Resolved) -> str:
    setting = next(each for each in SETTINGS if each.name == name)
    return "-" if found.value is None else setting.text(found.value) or "-"
