"""`portico log`: a log's files, without a running broker."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ctl.errors import CommandError, usage
from ctl.options import AsJson
from ctl.tools.log_dump import Damage, Line, Wanted, dump, files_of
from ctl.tools.record_dump import Decoder

app = typer.Typer(no_args_is_help=True)


@app.callback()
def log() -> None:
    """Files of logs, read from the disk (operators)."""


@app.command("dump")
def dump_files(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE|DIRECTORY", help="Files of logs, or directories with all they hold."),
    ],
    records: Annotated[bool, typer.Option("--records", help="Records too, not only batches.")] = False,
    verify_index: Annotated[
        bool, typer.Option("--verify-index", help="Look up in the segments what the indexes say.")
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Records are those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Records are those of __transaction_state.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what the files say; exit code 1 when one is damaged. JSON output has one object per line."""
    if offsets_decoder and transaction_log_decoder:
        raise usage("--offsets-decoder and --transaction-log-decoder exclude one another")
    decoder = Decoder.OFFSETS if offsets_decoder else None
    decoder = Decoder.TRANSACTIONS if transaction_log_decoder else decoder
    wanted = Wanted(records, verify_index, decoder)
    try:
        files = files_of(paths)
    except FileNotFoundError as error:
        raise CommandError(str(error)) from error
    if not files:
        raise CommandError(f"there is no file of a log in {', '.join(map(str, paths))}")
    damaged = [path for path in files if _dump_one(path, wanted, as_json=as_json)]
    if damaged:
        names = ", ".join(map(str, damaged[:3])) + (" ..." if len(damaged) > 3 else "")
        raise CommandError(f"{len(damaged)} of {len(files)} files are damaged: {names}")


def _dump_one(path: Path, wanted: Wanted, *, as_json: bool) -> bool:
    """Whether it is damaged."""
    if not as_json:
        print(f"{path}:")
    is_damaged = False
    for found in dump(path, wanted):
        if isinstance(found, Damage):
            is_damaged = True
        print(_json(path, found) if as_json else _sentence(found), flush=False)
    sys.stdout.flush()
    return is_damaged


def _json(path: Path, found: Line | Damage) -> str:
    if isinstance(found, Damage):
        return json.dumps({"file": str(path), "kind": "damage", **found._asdict()})
    return json.dumps({"file": str(path), "kind": found.kind, **found.facts})


def _sentence(found: Line | Damage) -> str:
    if isinstance(found, Damage):
        where = f"position {found.position}: " if found.position >= 0 else ""
        return f"DAMAGED {where}{found.reason}"
    indent = "  " if found.kind == "record" else ""
    return indent + " ".join(f"{name}: {_value(value)}" for name, value in found.facts.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
