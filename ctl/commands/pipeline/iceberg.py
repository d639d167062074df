"""`portico pipeline iceberg`: lake tables by name for Iceberg's readers, without a copy."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ctl.commands.pipeline.lake_upkeep import TopicNames
from ctl.commands.pipeline.tables import named
from ctl.errors import CommandError, usage
from ctl.output import Answer, Shortfall, in_table
from ctl.pipeline.run import JobRun, LakeJob
from pipeline.errors import PipelineError
from pipeline.lake.planning.readable_names import Readable
from tenants.store.database_url import DatabaseUrl

if TYPE_CHECKING:
    from pipeline.lake.iceberg import Shown

_FAULTS_SHOWN: Final = 3


def iceberg(
    start_job: LakeJob,
    instance: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An instance's id or unique name; default: all.")
    ] = None,
    topics: TopicNames = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            envvar="PORTICO_ICEBERG_CATALOG",
            metavar="URL",
            help="postgresql://... or sqlite:////FILE. Else a SQLite file below the data directory.",
        ),
    ] = None,
    drop_gone: Annotated[
        bool, typer.Option("--drop-gone", help="Drop names that no table of the lake has any more.")
    ] = False,
) -> Answer:
    """Bring Iceberg tables up to what was loaded: `shop.orders` for pyiceberg, Spark, Trino and others."""
    if topics and instance is None:
        raise usage("--topic is of an instance: name it")
    if drop_gone and instance is not None:
        raise usage("--drop-gone is for all instances: name none")
    url = None if catalog is None else _catalog_url(catalog)
    with start_job("iceberg", instance or "") as run:
        from pipeline.lake.iceberg import IcebergLake

        found = named(run)
        if not found:
            raise CommandError("nothing was loaded yet: start with `portico pipeline load`")
        wanted = _wanted(run, found, instance, topics)
        if url is None:
            run.layout.iceberg_catalog.parent.mkdir(parents=True, exist_ok=True)
            url = f"sqlite:///{run.layout.iceberg_catalog}"
        lake = IcebergLake(run.layout.lake_root, url, os.environ)
        shown: list[Shown] = []
        faults: list[str] = []
        run.progress.planned(len(wanted), "tables")
        for number, each in enumerate(wanted, 1):
            try:
                shown.append(lake.show(each, datetime.now(UTC)))
            except PipelineError as error:
                faults.append(error.sentence)
            run.progress.done(number)
        gone = lake.gone(found, drop=drop_gone)
        run.progress.figures(failed_tables=len(faults))
        answer = _answer(shown, gone, "dropped" if drop_gone else "gone")
        if faults:
            more = f"; and {len(faults) - _FAULTS_SHOWN} more failed" if len(faults) > _FAULTS_SHOWN else ""
            raise Shortfall("; ".join(faults[:_FAULTS_SHOWN]) + more, answer)
    return answer


def _catalog_url(text: str) -> str:
    try:
        return DatabaseUrl.parse(text).url
    except ValueError as error:
        raise usage(f"--catalog: {error}") from error


def _wanted(
    run: JobRun, found: Sequence[Readable], instance: str | None, topics: Sequence[str] | None
) -> Sequence[Readable]:
    if instance is None:
        return found
    instance_id = str(run.instance(instance)["id"])
    mine = [each for each in found if each.place.instance_id == instance_id]
    for topic in topics or ():
        if all(each.place.topic != topic for each in mine):
            raise CommandError(f"nothing of topic {topic} is loaded: start with `portico pipeline load`")
    return [each for each in mine if not topics or each.place.topic in topics]


def _answer(shown: "Sequence[Shown]", gone: Sequence[str], state_of_gone: str) -> Answer:
    document: list[object] = [each._asdict() for each in shown]
    document += [{"name": each, "state": state_of_gone} for each in gone]
    rows: list[list[object]] = [
        [each.name, each.state, each.version, each.added_files, each.removed_files, each.metadata]
        for each in shown
    ]
    rows += [[each, state_of_gone, "", "", "", ""] for each in gone]
    columns = ["NAME", "STATE", "DELTA VERSION", "FILES ADDED", "REMOVED", "METADATA"]
    return in_table(document, columns, rows, empty="no tables")
