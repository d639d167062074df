"""`portico drill`: lose a part of a stack on purpose, under load, and see what follows."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import Answer, in_table, terminal

if TYPE_CHECKING:
    from ctl.drills.catalogue import Drill
    from ctl.drills.run import Times
    from ctl.drills.site import Site
    from ctl.drills.timeline import Entry

_LIST = "list"


def drill(
    names: Annotated[
        list[str], typer.Argument(metavar="list | NAME...", help="Done one after another, on one stack.")
    ],
    running: Annotated[
        bool,
        typer.Option("--running", help="Hurt the stack that runs on --data-dir, not one of the drill's own."),
    ] = False,
    among_tenants: Annotated[
        bool, typer.Option("--among-tenants", help="With --running: although the stack has instances.")
    ] = False,
    hold_s: Annotated[
        float, typer.Option("--hold-s", min=1, max=600, help="How long the fault lasts at least.")
    ] = 6,
    sign_within_s: Annotated[
        float, typer.Option("--sign-within-s", min=1, max=600, help="And how much longer until it is seen.")
    ] = 30,
    recover_within_s: Annotated[
        float, typer.Option("--recover-within-s", min=1, max=600, help="When it has to be over.")
    ] = 90,
    redis_url: Annotated[
        str | None, typer.Option(metavar="URL", envvar="PORTICO_DRILL_REDIS_URL", help="An empty one.")
    ] = None,
    postgres_url: Annotated[
        str | None, typer.Option(metavar="URL", envvar="PORTICO_DRILL_POSTGRES_URL", help="An empty one.")
    ] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Iterator[Answer]:
    """Do drills of the runbooks under load of a real client; exit code 1 when one fails."""
    from ctl.drills.catalogue import DRILLS
    from ctl.drills.run import Times

    if names == [_LIST]:
        yield _all()
        return
    if unknown := [name for name in names if name not in DRILLS]:
        raise usage(f"there is no drill '{unknown[0]}', but {', '.join(DRILLS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # faults are undone, too, when it is stopped
    chosen = {name: DRILLS[name] for name in names}
    times = Times(hold_s, sign_within_s, recover_within_s)
    urls = {"redis": redis_url, "postgres": postgres_url}
    with _site(chosen, urls, data_dir.resolve(), running=running, among_tenants=among_tenants) as site:
        for name, each in chosen.items():
            yield _one(name, each, site, times)


def _all() -> Answer:
    from ctl.drills.catalogue import DRILLS

    rows = [
        {
            "drill": name,
            "what": each.what,
            "alerts": list(each.alerts),
            "runbook": each.runbook,
            "brokers": each.brokers,
            "own_stack_only": each.needs_own_stack,
        }
        for name, each in DRILLS.items()
    ]
    shown = ([row["drill"], row["what"], row["runbook"], row["brokers"]] for row in rows)
    return in_table(rows, ["DRILL", "WHAT HAPPENS", "RUNBOOK", "BROKERS"], shown, empty="There is none.")


@contextlib.contextmanager
def _site(
    chosen: dict[str, "Drill"],
    urls: dict[str, str | None],
    data_dir: Path,
    *,
    running: bool,
    among_tenants: bool,
) -> Iterator["Site"]:
    from ctl.drills import place

    drills = list(chosen.values())
    if running:
        yield place.running(data_dir, drills, among_tenants=among_tenants)
        return
    if among_tenants:
        raise usage("--among-tenants is for --running")
    with place.own(drills, urls) as site:
        yield site


def _one(name: str, chosen: "Drill", site: "Site", times: "Times") -> Answer:
    """One drill's verdict. What happens on the way is told at once, beside the output."""
    from ctl.drills.run import run
    from ctl.drills.timeline import Timeline

    aside = terminal(stderr=True, markup=True)

    def show_entry(entry: "Entry") -> None:
        aside.print(f"{entry.at_s:7.1f} s  {entry.kind:8}{escape(entry.text)}", soft_wrap=True)

    def show_checks() -> None:
        for check in checks:
            mark = "[green]holds[/]         " if check.holds else "[red]DOES NOT HOLD[/] "
            terminal(markup=True).print(f"  {mark}{check.what}: {escape(check.found)}", soft_wrap=True)
        terminal().print(f"verdict: {'passed' if passed else 'failed'}\n")

    aside.print(f"[bold]{name}[/]: {chosen.what}  ({chosen.runbook})")
    timeline = Timeline(show_entry)
    checks = run(chosen, site, times, timeline)
    passed = all(check.holds for check in checks)
    result = {
        "drill": name,
        "passed": passed,
        "runbook": chosen.runbook,
        "timeline": [entry._asdict() for entry in timeline.entries],
        "checks": [check._asdict() for check in checks],
    }
    return Answer(result, show_checks, code=0 if passed else 1)
