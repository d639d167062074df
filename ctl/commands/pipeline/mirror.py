"""`portico pipeline mirror`: topics of one instance or cluster copied to another, in order, exactly once."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctl.commands.pipeline.lake_upkeep import TopicNames
from ctl.errors import usage
from ctl.output import Answer, Shortfall, print_table
from ctl.pipeline.lineage import topic
from ctl.pipeline.run import JobRun, MirrorJob, say

if TYPE_CHECKING:
    from pipeline.mirror.job import MirrorSummary
    from pipeline.mirror.planning.address import Address

_DATA_LOSS = ("fail", "skip")


def mirror(
    start_job: MirrorJob,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="An instance, or with --source-bootstrap any name.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An instance, or with --target-bootstrap any name.")
    ],
    topics: TopicNames = None,
    rename: Annotated[
        str, typer.Option(metavar="PATTERN", help="Names at the target: a pattern, or 'same'.")
    ] = "{source}.{topic}",
    continuous: Annotated[bool, typer.Option("--continuous", help="Go on until stopped.")] = False,
    source_bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A source that is no instance of this console.")
    ] = None,
    target_bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A target that is no instance of this console.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", metavar="GROUP", help="Carry over a group's offsets; repeat for several."),
    ] = None,
    source_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client properties for the source: TLS, a login.")
    ] = None,
    target_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client properties for the target.")
    ] = None,
    on_data_loss: Annotated[
        str,
        typer.Option(metavar="fail|skip", help="When retention removed records before they were mirrored."),
    ] = "fail",
) -> Answer:
    """Mirror topics to another instance or cluster: partitions, order, timestamps and headers are kept."""
    if on_data_loss not in _DATA_LOSS:
        raise usage(f"--on-data-loss is fail or skip, not '{on_data_loss}'")
    if rename != "same" and "{topic}" not in rename:
        raise usage("--rename must be 'same' or contain {topic}, such as '{source}.{topic}'")
    with start_job("mirror", f"{source} -> {target}") as run:
        from pipeline.mirror.job import mirror as run_mirror
        from pipeline.mirror.planning.tracks import MirrorRequest

        source_name, source_address = _side(run, source, source_bootstrap, source_config)
        target_name, target_address = _side(run, target, target_bootstrap, target_config)
        request = MirrorRequest(
            source=source_name,
            target=target_name,
            source_address=source_address,
            target_address=target_address,
            topics=tuple(dict.fromkeys(topics or ())),
            rename=rename,
            continuous=continuous,
            skip_lost=on_data_loss == "skip",
            groups=tuple(dict.fromkeys(groups or ())),
        )
        summary = run_mirror(lambda: run.spark, request, run.progress, say)
        answer = Answer(_document(summary), lambda: _show(summary))
        for track in summary.tracks:
            if track.records:
                read = topic(source_address.bootstrap, track.unit.topic)
                run.lineage.moved(read, topic(target_address.bootstrap, track.unit.target_topic))
        if summary.paused:
            raise Shortfall("; ".join(summary.paused), answer)
    return answer


def _side(run: JobRun, name: str, bootstrap: str | None, config_file: Path | None) -> "tuple[str, Address]":
    """(what it is called in names of topics, where it is and how clients come in)."""
    from pipeline.mirror.planning.address import BOOTSTRAP, Address, check_bootstrap, parse_client_config

    config = {} if config_file is None else parse_client_config(_text(config_file), str(config_file))
    named = config.pop(BOOTSTRAP, None)
    bootstrap = bootstrap or named
    if bootstrap is not None:
        check_bootstrap(bootstrap)
        return name, Address(bootstrap, config)
    instance = run.instance(name)
    return str(instance["name"]), Address(str(instance["bootstrap_servers"]), config)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{file} cannot be read: {error}") from error


def _show(summary: "MirrorSummary") -> None:
    print_table(
        ["TOPIC", "PARTITION", "TARGET", "RECORDS", "BYTES", "POSITION", "LAG", "STATE"],
        [
            [
                track.unit.topic,
                track.unit.partition,
                track.unit.target_topic,
                track.records,
                track.bytes,
                track.reached,
                track.lag,
                track.state,
            ]
            for track in summary.tracks
        ],
        empty="Nothing to mirror: the source has no topics.",
    )
    if summary.groups:
        print_table(
            ["GROUP", "TOPIC", "PARTITION", "AT SOURCE", "AT TARGET"],
            [list(each) for each in summary.groups],
            empty="",
        )


def _document(summary: "MirrorSummary") -> dict[str, object]:
    partitions: Sequence[Any] = summary.tracks
    return {
        "records": sum(track.records for track in partitions),
        "bytes": sum(track.bytes for track in partitions),
        "filtered": sum(track.filtered for track in partitions),
        "lost_offsets": sum(track.lost for track in partitions),
        "lag_records": sum(track.lag for track in partitions),
        "lag_seconds": summary.lag_seconds,
        "refused_topics": summary.refused,
        "partitions": [
            {
                "topic": track.unit.topic,
                "topic_id": track.unit.topic_id,
                "partition": track.unit.partition,
                "target_topic": track.unit.target_topic,
                "records": track.records,
                "bytes": track.bytes,
                "position": track.reached,
                "target_position": track.target_position,
                "lag_records": track.lag,
                "state": track.state,
                "sentence": track.sentence,
            }
            for track in partitions
        ],
        "groups": [each._asdict() for each in summary.groups],
    }
