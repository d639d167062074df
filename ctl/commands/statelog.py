"""`portico statelog`: what the controller told the brokers, put together from their logs."""

import datetime
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ctl.command import Commands
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, DataDir, parse_time
from ctl.output import Answer
from ctl.tools.state_change_logs import Wanted, files_of, merge, sentence

app = Commands()


@app.command("merge")
def merge_logs(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Logs; without any those of --data-dir.")
    ] = None,
    since: Annotated[
        int | None, typer.Option("--from", parser=parse_time, metavar="TIME", help="RFC 3339, or epoch ms.")
    ] = None,
    until: Annotated[int | None, typer.Option("--to", parser=parse_time, metavar="TIME")] = None,
    topic: Annotated[str | None, typer.Option(help="A physical name.")] = None,
    partitions: Annotated[str | None, typer.Option(metavar="0,1,2")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Iterator[Answer]:
    """Merge state-change logs by time; JSON output has one object per line."""
    wanted = Wanted(since, until, topic, None if partitions is None else _indexes(partitions))
    merged = merge(files or files_of(data_dir), wanted)
    for line in merged.lines:
        yield Answer(line, partial(_show, line))
    if merged.unreadable:
        print(f"portico: {merged.unreadable} lines are no state changes and were left out", file=sys.stderr)


def _show(line: Any) -> None:
    moment = datetime.datetime.fromtimestamp(line["ts"] / 1000, datetime.UTC)
    print(f"{moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')} {sentence(line)}")


def _indexes(text: str) -> frozenset[int]:
    try:
        return frozenset(int(one) for one in text.split(","))
    except ValueError:
        raise usage(f"--partitions '{text}' is not like 0,1,2") from None
