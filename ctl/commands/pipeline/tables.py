"""`portico pipeline tables` and `sql`: what was loaded, by names that people and engines can read."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ctl.commands.pipeline.lake_upkeep import LAKE_KINDS
from ctl.errors import CommandError, usage
from ctl.output import Answer, in_table, print_table
from ctl.pipeline.run import JobRun, LakeJob, say, sentences
from pipeline.lake.planning.readable_names import (
    Readable,
    duckdb_views,
    readable,
    spark_tables,
    spark_views,
)

if TYPE_CHECKING:
    from pyspark.sql import Row

_ENGINES: Final = {"spark": spark_tables, "duckdb": duckdb_views}
_ROWS: Final = 100


def tables(
    start_job: LakeJob,
    engine: Annotated[
        str | None, typer.Option("--sql", metavar="spark|duckdb", help="Print statements that name them.")
    ] = None,
) -> Answer:
    """All lake tables by name, and where each is; or the statements that name them in an engine."""
    if engine is not None and engine not in _ENGINES:
        raise usage(f"--sql is spark or duckdb, not '{engine}'")
    with start_job("tables", "") as run:
        found = named(run)
    document = [_document(each) for each in found]
    if engine is not None:
        statements = _ENGINES[engine](found)
        return Answer(document, lambda: print(*(f"{each};" for each in statements), sep="\n"))
    columns = ["NAME", "KIND", "TOPIC", "TABLE"]
    rows = (
        [f"{each.schema}.{each.name}", each.place.kind, each.place.topic, each.place.url] for each in found
    )
    return in_table(
        document, columns, rows, empty="nothing of this tenant was loaded yet (operators: --tenant)"
    )


def sql(
    start_job: LakeJob,
    statement: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help='Like "SELECT * FROM shop.orders"; without: a prompt.'),
    ] = None,
    rows_max: Annotated[int, typer.Option("--rows", min=1, help="Rows that are shown at most.")] = _ROWS,
) -> Answer:
    """Ask lake tables by name, in Spark's SQL: a schema is an instance, a table is a topic."""
    with start_job("sql", "") as run:
        found = named(run)
        if not found:
            raise CommandError("nothing was loaded yet: start with `portico pipeline load`")
        asked = _Asked(run, found, rows_max)
        if statement is None:
            asked.prompt()
            return Answer([], lambda: None)
        columns, rows = asked.ask(statement)
    return Answer(
        [_plain(each.asDict(recursive=True)) for each in rows],
        lambda: print_table(columns, _cells(rows), empty="no rows"),
    )


class _Asked:
    """Statements of one session; a view is made when it is first named."""

    def __init__(self, run: JobRun, tables: Sequence[Readable], rows_max: int) -> None:
        self._run = run
        self._tables = tables
        self._made: set[Readable] = set()
        self._rows_max = rows_max

    def ask(self, statement: str) -> "tuple[list[str], list[Row]]":
        """Columns and rows. Raises: Spark's exceptions."""
        asked = {*_asked_for(statement, self._tables)} - self._made
        for each in spark_views(sorted(asked)):
            self._run.spark.sql(each)
        self._made |= asked
        frame = self._run.spark.sql(statement)
        return frame.columns, frame.limit(self._rows_max).collect()

    def prompt(self) -> None:
        """A statement a line, until the end of the input; one that fails is a sentence."""
        import readline  # noqa: F401  `input` gets its history

        while True:
            try:
                line = input("sql> " if sys.stdin.isatty() else "").strip().rstrip(";")
                if line:
                    with sentences():
                        columns, rows = self.ask(line)
                    print_table(columns, _cells(rows), empty="no rows")
            except EOFError:
                return
            except CommandError as error:
                say(error.sentence)


def named(run: JobRun) -> list[Readable]:
    """All lake tables, with their names in engines."""
    from pipeline.lake.lake_tables import places

    instances = {str(each["id"]): str(each["name"]) for each in run.console.all_items("instances")}
    return readable(places(run.layout, instances, LAKE_KINDS))


def _asked_for(statement: str, found: Sequence[Readable]) -> Sequence[Readable]:
    """Each view costs a look at its table: those whose name stands somewhere, or all where none does."""
    text = statement.lower()
    return [each for each in found if each.name in text] or found


def _cells(rows: "Sequence[Row]") -> list[list[object]]:
    return [[_text(cell) for cell in row] for row in rows]


def _text(cell: object) -> object:
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).decode("utf-8", "backslashreplace")
    return "" if cell is None else cell


def _plain(value: object) -> object:
    """For JSON."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return _text(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _document(each: Readable) -> dict[str, object]:
    place = each.place
    return {
        "name": f"{each.schema}.{each.name}",
        "kind": place.kind,
        "instance": place.instance,
        "topic": place.topic,
        "topic_id": place.topic_id,
        "table": place.url,
    }
