"""`portico pipeline jobs`: what runs, ran and failed, as the console was told."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

import typer

from ctl.console_options import OperatorConsole
from ctl.errors import usage
from ctl.output import Answer, in_table, terminal

_STATES: Final = ("running", "lost", "succeeded", "failed", "stopped")


def jobs(
    console: OperatorConsole,
    job: Annotated[str | None, typer.Option(help="Of one job: load, meter, mirror ...")] = None,
    state: Annotated[str | None, typer.Option(help=f"In one state: {', '.join(_STATES)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The last so many.")] = 20,
    watch: Annotated[
        bool, typer.Option("--watch", help="Anew every second, until Ctrl-C; JSON: a line each.")
    ] = False,
) -> Answer | Iterator[Answer]:
    """Show the last runs of pipeline jobs: progress, rates, figures, errors (operators)."""
    if state is not None and state not in _STATES:
        raise usage(f"--state is one of {', '.join(_STATES)}, not '{state}'")
    asked: dict[str, object] = {"limit": limit}
    asked |= {name: value for name, value in (("job", job), ("state", state)) if value is not None}

    def ask() -> Answer:
        found = console.get("pipeline/jobs", **asked)
        return in_table(
            found,
            ["STARTED (UTC)", "JOB", "SUBJECT", "STATE", "DONE", "RATE", "TOOK", "CPU S/GB", "FIGURES"],
            map(_row, found["items"]),
            empty="No pipeline job has run: start one, such as `portico pipeline load INSTANCE TOPIC`.",
        )

    return _again_and_again(ask) if watch else ask()


def _again_and_again(ask: Callable[[], Answer]) -> Iterator[Answer]:
    def show(answer: Answer) -> None:
        terminal().clear()
        answer.show()

    while True:
        answer = ask()
        yield answer._replace(show=partial(show, answer))
        time.sleep(1)


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
        _cost(run["unit"], run["done"], run["figures"]),
        run["error"] or figures,
    ]


def _cost(unit: str, done: int, figures: Mapping[str, int]) -> str:
    """CPU seconds for a GB that a run worked on, where it says how many bytes that was."""
    count = done if unit == "bytes" else figures.get("bytes", 0)
    cpu_ms = figures.get("cpu_ms")
    return f"{cpu_ms / 1000 / (count / 1e9):.1f}" if count and cpu_ms is not None else "-"
