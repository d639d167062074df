"""`portico pipeline load`: topics of instances into Delta tables, every record exactly once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from contracts.units import format_bytes
from ctl.commands.pipeline.lake_repair import Bootstrap
from ctl.commands.pipeline.lake_upkeep import TopicNames, subject_of
from ctl.errors import CommandError, usage
from ctl.options import parse_duration
from ctl.output import Answer, Shortfall, in_table
from ctl.pipeline.lineage import table, topic
from ctl.pipeline.run import JobRun, LakeJob, say

if TYPE_CHECKING:
    from pipeline.lake.load import Loader, LoadSettings
    from pipeline.lake.plan import LoadSource, TopicLoad

_ON_DATA_LOSS: Final = ("fail", "skip")


def load(
    start_job: LakeJob,
    instances: Annotated[list[str], typer.Argument(metavar="INSTANCE...", help="Ids or unique names.")],
    topics: TopicNames = None,
    all_topics: Annotated[bool, typer.Option("--all", help="All topics, as without --topic.")] = False,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Load again and again, until stopped.")
    ] = False,
    every: Annotated[
        float,
        typer.Option(parser=parse_duration, metavar="TIME", help="With --continuous: how often, like 10s."),
    ] = 10.0,
    offsets_max: Annotated[
        int,
        typer.Option(
            "--max-records-per-batch", min=1, metavar="N", help="Rows of one commit, over all topics."
        ),
    ] = 1_000_000,
    on_data_loss: Annotated[
        str,
        typer.Option(metavar="fail|skip", help="When retention removed records before they were loaded."),
    ] = "fail",
    tidy: Annotated[
        bool,
        typer.Option("--tidy/--no-tidy", help="Join very small files of what was loaded, for 10 s at most."),
    ] = True,
    bootstrap: Bootstrap = None,
) -> Answer:
    """Load topics into Delta tables below the data directory, as a client of the instance: exactly once."""
    if on_data_loss not in _ON_DATA_LOSS:
        raise usage(f"--on-data-loss is fail or skip, not '{on_data_loss}'")
    if topics and all_topics:
        raise usage("name topics with --topic or say --all, not both")
    if bootstrap and len(instances) > 1:
        raise usage("--bootstrap is the address of one instance: load the others by another command")
    if every <= 0:
        raise usage("--every must be more than 0 s")
    with start_job("load", subject_of(*instances, topics=topics)) as run:
        settings = _settings(offsets_max, on_data_loss, tidy=tidy)
        sources, unknown = _sources(run, instances, topics, bootstrap)
        loader = _loader(run, sources, settings)
        if continuous:
            for sentence in unknown:
                say(sentence)
            loader.run_forever(every, say)
        done = loader.run()
        answer = _answer(done.loads)
        places = {source.name: source.kafka.bootstrap for source in sources}
        for load in done.loads:
            if load.batches:
                read = topic(places[load.source.name], load.topic.name)
                run.lineage.moved(read, table(load.path, load.rows, load.bytes))
        if fault := "; ".join([*unknown, *([done.failures] if done.failures else [])]):
            raise Shortfall(fault, answer)
    return answer


def _sources(
    run: JobRun, names: Sequence[str], topics: Sequence[str] | None, bootstrap: str | None
) -> "tuple[list[LoadSource], list[str]]":
    """What can be asked for, and why the others cannot: one that its tenant has deleted stops no other.

    Raises: CommandError when it is all of them.
    """
    sources, unknown = [], []
    for name in dict.fromkeys(names):
        try:
            sources.append(_source(run, name, topics, bootstrap))
        except CommandError as error:
            unknown.append(error.sentence)
    if not sources:
        raise CommandError("; ".join(unknown))
    return sources, unknown


def _source(run: JobRun, name: str, topics: Sequence[str] | None, bootstrap: str | None) -> "LoadSource":
    from pipeline.ingest.offsets import KafkaSource
    from pipeline.lake.plan import LoadSource

    instance = run.instance(name)
    state = "" if instance["state"] == "running" else f"it is {instance['state']}; "
    kafka = KafkaSource(bootstrap or str(instance["bootstrap_servers"]))
    wanted = tuple(dict.fromkeys(topics)) if topics else None
    return LoadSource(str(instance["id"]), str(instance["name"]), kafka, wanted, state)


def _settings(offsets_max: int, on_data_loss: str, *, tidy: bool) -> "LoadSettings":
    from pipeline.lake.load import LoadSettings
    from pipeline.lake.plan import OnDataLoss

    found = LoadSettings(offsets_max, OnDataLoss(on_data_loss))
    return found if tidy else replace(found, tidy_s=0)


def _loader(run: JobRun, sources: "Sequence[LoadSource]", settings: "LoadSettings") -> "Loader":
    from pipeline.lake.load import Loader

    return Loader(lambda: run.spark, run.layout, sources, settings, run.progress)


def _answer(loads: "Sequence[TopicLoad]") -> Answer:
    return in_table(
        [_document(load) for load in loads],
        ["INSTANCE", "TOPIC", "ROWS", "SIZE", "COMMITS", "LOST", "TABLE"],
        (
            [
                *(load.source.name, load.topic.name, f"{load.rows:,}", format_bytes(load.bytes)),
                *(load.batches, f"{load.lost:,}", load.path),
            ]
            for load in loads
        ),
        empty="no topics",
    )


def _document(load: "TopicLoad") -> dict[str, object]:
    return {
        "instance": load.source.name,
        "topic": load.topic.name,
        "topic_id": load.topic.id,
        "table": str(load.path),
        "rows": load.rows,
        "bytes": load.bytes,
        "offsets": load.offsets,
        "lost_offsets": load.lost,
        "batches": load.batches,
        "error": load.failure,
    }
