"""`portico pipeline jobs`: what runs, ran and failed, as the console was told."""

import time
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ctl.console_options import OperatorConsole
from ctl.errors import usage
from ctl.options import AsJson
from ctl.output import print_json, print_table, terminal

_STATES: Final = ("running", "lost", "succeeded", "failed", "stopped")


def jobs(
    console: OperatorConsole,
    job: Annotated[str | None, typer.Option(help="Of one job: load, meter, mirror ...")] = None,
    state: Annotated[str | None, typer.Option(help=f"In one state: {', '.join(_STATES)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The last so many.")] = 20,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show them anew every second, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the last runs of pipeline jobs: progress, rates, figures, errors (operators)."""
    if state is not None and state not in _STATES:
        raise usage(f"--state is one of {', '.join(_STATES)}, not '{state}'")
    if watch and as_json:
        raise usage("--watch is for people: leave it or --json out")
    asked: dict[str, Any] = {"limit": limit}
    asked |= {name: value for name, value in (("job", job), ("state", state)) if value is not None}
    if as_json:
        print_json(console.get("pipeline/jobs", **asked))
        return
    while True:
        items = console.get("pipeline/jobs", **asked)["items"]
        if watch:
            terminal().clear()
        _show(items)
        if not watch:
            return
        time.sleep(1)


def _show(items: list[Any]) -> None:
    print_table(
        ["STARTED (UTC)", "JOB", "SUBJECT", "STATE", "DONE", "RATE", "TOOK", "FIGURES"],
        (_row(one) for one in items),
        empty="No pipeline job has run: start one, such as `portico pipeline load INSTANCE TOPIC`.",
    )


def _row(run: Any) -> list[str]:
    started, updated = (datetime.fromisoformat(run[name]) for name in ("started_at", "updated_at"))
    of_planned = f" of {run['planned']:,}" if run["planned"] else ""
    figures = " ".join(f"{name}={value:,}" for name, value in sorted(run["figures"].items()))
    return [
        f"{started:%Y-%m-%d %H:%M:%S}",
        run["job"],
        run["subject"],
        run["state"],
        f"{run['done']:,}{of_planned} {run['unit']}",
        f"{run['rate_per_s']:,.0f}/s",
        f"{(updated - started).total_seconds():.1f} s",
        run["error"] or figures,
    ]
