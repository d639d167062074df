"""`portico pipeline demo`: from invented activity to lake, rankings, alerts, bills and advice."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape

from contracts.units import counted
from ctl.console_client import Console
from ctl.errors import CommandError
from ctl.installation import CALLED
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import terminal
from ctl.pipeline.run import say, sentences, stopped_by_sigterm
from pipeline.layout import PipelineLayout
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ctl.demo.acts import Seen

_OWN_USAGE_INTERVAL_MS: Final = 5_000
"""The interval of a stack that is started for the demo; else usage comes each minute."""


def demo(
    clean: Annotated[bool, typer.Option("--clean", help="Only remove what earlier demos made.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> int:
    """Show every kind of job on invented activity, on the running stack or one of its own.

    It works in a tenant of its own, `pipeline-demo`, and on tables of its own (operators).
    """
    from ctl.demo.pipeline_place import TENANT, DemoPlace
    from ctl.stack.own_stack import running_stack

    screen, started, kept = terminal(markup=True), time.monotonic(), True
    if clean:
        with Console.of(data_dir, TENANT) as console:
            removed = DemoPlace(console, data_dir).clean()
            screen.print(f"removed of earlier demos: {counted(removed, 'instance')}")
        return 0
    session = _Session(PipelineLayout(data_dir.resolve()))
    pictures: list[Path] = []
    with (
        stopped_by_sigterm(),
        running_stack(data_dir, "--usage-interval-ms", str(_OWN_USAGE_INTERVAL_MS)) as own,
        session,
        Console.of(data_dir, TENANT) as console,
        sentences(),
    ):
        screen.print(f"Watch it at [bold]{console.url}[/] while it runs (one to three minutes).")
        for seen in _acts(console, data_dir, session.get, pictures):
            mark = "[green]kept[/]" if seen.kept else "[red]NOT kept[/]"
            screen.print(f"{mark}  {seen.promise}: {escape(seen.seen)}", soft_wrap=True)
            kept = kept and seen.kept
        screen.print(f"\nAll in {time.monotonic() - started:.0f} s. Pictures and the day's report:")
        for path in pictures:
            screen.print(f"  {escape(str(path))}", soft_wrap=True)
        _tell_where(console, own, data_dir)
    if not kept:
        raise CommandError("not every promise was kept: see above")
    return 0


def _acts(
    console: Console,
    data_dir: Path,
    session: "Callable[[], SparkSession]",
    pictures: list[Path],
) -> "Iterator[Seen]":
    from ctl.demo import pipeline_acts as acts

    since_ms = epoch_ms()
    found, seen = acts.provision(console, data_dir)
    yield seen
    yield acts.activity(found)
    found.spark = session()
    yield acts.load(found)
    yield acts.decode(found)
    yield from acts.streams(found)
    pictures += found.pictures
    yield acts.meter(found, since_ms)
    yield acts.bill(found)
    yield acts.advise(found)


class _Session:
    """Spark starts while activity is sent."""

    def __init__(self, layout: PipelineLayout) -> None:
        self._layout = layout
        self._started: list[SparkSession] = []
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._start, name="spark-start")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        for spark in self._started:
            spark.stop()

    def get(self) -> "SparkSession":
        """The session, once it is there. Raises: PipelineError."""
        self._thread.join()
        if self._failure:
            raise self._failure[0]
        return self._started[0]

    def _start(self) -> None:
        from pipeline.session import spark_session

        try:
            self._started.append(spark_session(self._layout.scratch, say))
        except Exception as error:  # noqa: BLE001 - raised again by who asks for the session
            self._failure.append(error)


def _tell_where(console: Console, own: bool, data_dir: Path) -> None:
    screen = terminal()
    option = "" if data_dir == DEFAULT_DATA_DIR else f" --data-dir {data_dir}"
    if own:
        screen.print(f"\nThe stack of this demo stops now; `{CALLED} up{option}` serves the same data:")
    else:
        screen.print(f"\nIn the console at {console.url}:")
    screen.print("  Instances of tenant pipeline-demo; Pipeline for the runs of its jobs.")
    screen.print(f"`portico pipeline demo --clean{option}` removes what it made.")
