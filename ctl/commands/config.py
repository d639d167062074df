"""`portico config`: the settings in force and where they come from."""

import typer

from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir
from ctl.output import print_json, print_table
from ctl.stack.settings import SETTINGS, load
from runtime.config import ConfigFault
from runtime.redis_link import RedisUrl

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Print every setting, its value and its origin (flag > PORTICO_* > portico.toml > default)."""
    try:
        values = load(data_dir, {})
    except ConfigFault as fault:
        raise usage("; ".join(fault.faults)) from fault
    if as_json:
        print_json(
            {name: {"value": _plain(found.value), "origin": found.origin} for name, found in values.items()}
        )
        return
    rows = ([s.name, _text(values[s.name].value), values[s.name].origin, s.help] for s in SETTINGS)
    print_table(["SETTING", "VALUE", "ORIGIN", "MEANING"], rows, empty="")


@app.callback()
def group() -> None:
    """Settings of this stack."""


def _plain(value: object) -> object:
    """Without secrets."""
    return str(value) if isinstance(value, RedisUrl) else value


def _text(value: object) -> str:
    if isinstance(value, tuple):
        kinds = [type(part) for part in value]
        separator = ":" if kinds == [str, int] else "-" if kinds == [int, int] else ","
        return separator.join(str(part) for part in value) or "-"
    return "-" if value is None else str(value)
