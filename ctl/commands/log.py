"""`portico log`: a log's files on the disk, whether its broker runs or not."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.units import counted, format_bytes
from ctl.command import Commands
from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR, DataDir, parse_rate
from ctl.output import Answer
from ctl.stack.layout import Layout
from ctl.tools.log_dump import Damage, Line, Wanted, dump, files_of
from ctl.tools.log_scrub import PROGRESS_FILE, Scrubbed, Throttle, scrub
from ctl.tools.record_dump import Decoder

app = Commands()


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
) -> Iterator[Answer]:
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
    damaged = []
    for path in files:
        if (yield from _dump_one(path, wanted)):
            damaged.append(path)
    if damaged:
        names = ", ".join(map(str, damaged[:3])) + (" ..." if len(damaged) > 3 else "")
        raise CommandError(f"{len(damaged)} of {len(files)} files are damaged: {names}")


@app.command("scrub")
def scrub_logs(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="LOG_DIRECTORY", help="Default: those of all brokers of --data-dir."),
    ] = None,
    rate: Annotated[
        int,
        typer.Option("--rate", parser=parse_rate, metavar="RATE", help="Read no faster; 0: no bound."),
    ] = 20_000_000,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Not from where an interrupted scrub has come to.")
    ] = False,
    tell: Annotated[
        bool, typer.Option("--tell/--no-tell", help="Leave what is found for the broker to act on.")
    ] = True,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Iterator[Answer]:
    """Read every batch and check CRCs, offsets and epochs; exit code 1 when something is damaged.

    The broker may run. One that is told takes the damage for a fact: consumers get CORRUPT_MESSAGE there, and
    a follower fetches the records anew from its leader.
    """
    where = directories or Layout(data_dir).log_directories()
    if not where:
        raise CommandError(f"there is no log directory in {data_dir}: name one, or another --data-dir")
    throttle = Throttle(rate)
    damaged: list[Scrubbed] = []
    logs = 0
    try:
        for directory in where:
            progress_file = directory / PROGRESS_FILE
            if from_start:
                progress_file.unlink(missing_ok=True)
            for one in scrub(directory, progress_file, throttle.take, tell=tell):
                logs += 1
                if one.damage:
                    damaged.append(one)
                    yield from _damages(one)
    except OSError as error:
        raise CommandError(f"{error.filename or 'the disk'}: {error.strerror or error}") from error
    read = format_bytes(throttle.read_bytes)
    yield _for_people(f"{counted(logs, 'log')}, {read} read, {len(damaged)} damaged")
    if damaged:
        raise CommandError(
            f"{len(damaged)} of {logs} logs are damaged: followers fetch the records anew from their "
            "leaders; what has one replica is lost unless its files are restored, and consumer groups go on "
            "behind it (`portico group reset-offsets`)"
        )


def _for_people(text: str, document: Any = None) -> Answer:
    return Answer(document, lambda: print(text))


def _damages(one: Scrubbed) -> Iterator[Answer]:
    for each in one.damage:
        facts = {
            "log": str(one.place.directory),
            "topic": one.place.topic,
            "partition": one.place.partition,
            "first_offset": each.first_offset,
            "next_offset": each.next_offset,
            "kind": each.kind.value,
        }
        offsets = f"offsets {each.first_offset} to {each.next_offset - 1}"
        yield _for_people(f"DAMAGED {one.place.directory}: {offsets} ({each.kind.value})", facts)


def _dump_one(path: Path, wanted: Wanted) -> Generator[Answer, None, bool]:
    """What a file says; whether it is damaged."""
    yield _for_people(f"{path}:")
    is_damaged = False
    for found in dump(path, wanted):
        if isinstance(found, Damage):
            is_damaged = True
            told = {"kind": "damage", **found._asdict()}
        else:
            told = {"kind": found.kind, **found.facts}
        yield _for_people(_sentence(found), {"file": str(path), **told})
    return is_damaged


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
