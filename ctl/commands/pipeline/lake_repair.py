"""`portico pipeline backfill` and `audit`: what a lake table lacks, and bringing it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.commands.pipeline.lake_upkeep import TopicName, TopicNames, lakes_of, subject_of
from ctl.errors import CommandError, usage
from ctl.options import InstanceArgument, parse_time
from ctl.output import Answer, Shortfall, in_facts, print_table
from ctl.pipeline.run import JobRun, LakeJob, say
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pipeline.ingest.admin import Topic
    from pipeline.ingest.offsets import SourceOffsets
    from pipeline.ingest.ranges import PartitionRange
    from pipeline.lake.audit_findings import TopicAudit
    from pipeline.lake.backfill import BackfillResult
    from pipeline.lake.lake_tables import LakeTable

_SHOWN_MAX = 40
_RANGES_SHOWN_MAX = 5
Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where the instance is reached, unless at its own address."),
]


def backfill(
    start_job: LakeJob,
    instance: InstanceArgument,
    topic: TopicName,
    since: Annotated[
        int | None,
        typer.Option("--from", parser=parse_time, metavar="TIME", help="Like 2026-01-31T12:00:00Z."),
    ] = None,
    until: Annotated[
        int | None, typer.Option("--to", parser=parse_time, metavar="TIME", help="Behind the last record.")
    ] = None,
    from_offset: Annotated[int | None, typer.Option(min=0, metavar="OFFSET", help="The first one.")] = None,
    to_offset: Annotated[
        int | None, typer.Option(min=1, metavar="OFFSET", help="Behind the last one.")
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, metavar="N", help="Repeat for several; default: all."),
    ] = None,
    offsets_max: Annotated[
        int, typer.Option("--max-records-per-batch", min=1, metavar="N", help="Rows of one commit.")
    ] = 1_000_000,
    bootstrap: Bootstrap = None,
) -> Answer:
    """Bring what a lake table lacks of a window of its topic; nothing twice, also after a kill."""
    _check_window(since, until, from_offset, to_offset)
    with start_job("backfill", f"{instance} {topic}") as run:
        from pipeline.lake.backfill import backfill as backfill_table

        offsets, instance_id = _offsets(run, instance, bootstrap)
        found = _topic(offsets, instance, topic)
        lake = _lake(run, instance_id, found)
        if unknown := sorted(set(partitions or ()) - set(found.partitions)):
            raise CommandError(f"topic {topic} has no partition {unknown[0]}: it has {len(found.partitions)}")
        chosen = partitions or found.partitions
        if since is not None and until is not None:
            window = _between(offsets, found, since, until, chosen)
        else:
            window = _from_to(from_offset or 0, to_offset or 0, chosen)
        result = backfill_table(
            lambda: run.spark, run.layout, offsets, lake, found, window, run.progress, offsets_max
        )
    return _backfilled(result, lake)


def audit(
    start_job: LakeJob,
    instance: InstanceArgument,
    topics: TopicNames = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget-missing-files",
            help="Take files that are not on disk out of the table first, so that a backfill can mend it.",
        ),
    ] = False,
    bootstrap: Bootstrap = None,
) -> Answer:
    """Compare lake tables with the brokers: exit code 1 where a row is missing or doubled."""
    with start_job("audit", subject_of(instance, topics=topics)) as run:
        from pipeline.lake.audit import audit_table, forget_missing_files, write_audits
        from pipeline.lake.forgotten import forgotten_offsets

        offsets, _instance_id = _offsets(run, instance, bootstrap)
        lakes = lakes_of(run, instance, topics)
        current = offsets.topics({each.topic for each in lakes})
        now_ms = epoch_ms()
        audits = []
        for each in lakes:
            if forget and (count := forget_missing_files(each, now_ms)):
                say(f"{count} files that are not on disk were taken out of {each.path}")
            now = current.get(each.topic)
            same = now if now is not None and now.id == each.topic_id else None
            forgotten = forgotten_offsets(run.layout, each.topic_id)
            audits.append(
                audit_table(lambda: run.spark, each, offsets, same, forgotten, run.progress, now_ms)
            )
        table = write_audits(run.layout, audits)
        document = {"table": str(table), "topics": [_document(each) for each in audits]}
        answer = Answer(document, lambda: _show_audits(audits, str(table)))
        if fault := _incomplete(audits):
            raise Shortfall(fault, answer)
    return answer


def _check_window(since: int | None, until: int | None, first: int | None, end: int | None) -> None:
    by_time, by_offset = (since, until) != (None, None), (first, end) != (None, None)
    if by_time == by_offset:
        raise usage("name a window: --from and --to, or --from-offset and --to-offset")
    if by_time and (since is None or until is None or since >= until):
        raise usage("a window of time needs --from and a later --to")
    if by_offset and (first is None or end is None or first >= end):
        raise usage(
            "a window of offsets needs --from-offset and a larger --to-offset, which is behind the last"
        )


def _offsets(run: JobRun, instance: str, bootstrap: str | None) -> "tuple[SourceOffsets, str]":
    from pipeline.ingest.offsets import KafkaSource, SourceOffsets

    told = run.instance(instance)
    if told["state"] != "running" and bootstrap is None:
        raise CommandError(f"instance {instance} is {told['state']}: only a running one can be read")
    offsets = SourceOffsets(KafkaSource(bootstrap or str(told["bootstrap_servers"])))
    offsets.must_answer()
    return offsets, str(told["id"])


def _topic(offsets: "SourceOffsets", instance: str, name: str) -> "Topic":
    found = offsets.topics([name]).get(name)
    if found is None:
        raise CommandError(f"instance {instance} has no topic '{name}': see `portico topic list {instance}`")
    return found


def _lake(run: JobRun, instance_id: str, topic: "Topic") -> "LakeTable":
    from pipeline.lake.lake_tables import lake_tables

    for each in lake_tables(run.layout, instance_id, [topic.name]):
        if each.topic_id == topic.id:
            return each
    raise CommandError(
        f"topic {topic.name} was made again since it was loaded: start with `portico pipeline load`"
    )


def _between(
    offsets: "SourceOffsets", topic: "Topic", since: int, until: int, partitions: Sequence[int]
) -> "list[PartitionRange]":
    from pipeline.ingest.ranges import PartitionRange

    starts = offsets.at_time([topic], since).get(topic.name, {})
    ends = offsets.at_time([topic], until).get(topic.name, {})
    return [
        PartitionRange(each, starts[each], max(starts[each], ends[each]))
        for each in partitions
        if each in starts and each in ends
    ]


def _from_to(first: int, end: int, partitions: Sequence[int]) -> "list[PartitionRange]":
    from pipeline.ingest.ranges import PartitionRange

    return [PartitionRange(each, first, end) for each in partitions]


def _backfilled(result: "BackfillResult", lake: "LakeTable") -> Answer:
    return in_facts(
        {"topic": lake.topic, "topic_id": lake.topic_id, "table": str(lake.path)} | vars(result),
        [
            ("rows added", f"{result.rows:,} ({format_bytes(result.bytes)}, {result.batches} commits)"),
            ("rows that were there", f"{result.present:,}"),
            ("offsets looked at", f"{result.offsets:,}"),
            ("forgotten, and left so", f"{result.forgotten:,}"),
            ("removed by retention", f"{result.gone:,}"),
            ("left to `load`", f"{result.left_to_load:,}"),
            ("table", lake.path),
        ],
    )


def _show_audits(audits: "Sequence[TopicAudit]", table: str) -> None:
    print_table(
        [
            "TOPIC",
            "ROWS",
            "MISSING",
            "DOUBLED",
            "FILES MISSING",
            "EXPIRED",
            "FORGOTTEN",
            "NOT KNOWN",
            "NOT LOADED YET",
            "",
        ],
        (
            [
                *(each.lake.topic, f"{each.lake_rows:,}", f"{each.missing_rows + each.lost_rows:,}"),
                *(f"{each.duplicate_rows:,}", len(each.missing_files), f"{each.expired_offsets:,}"),
                *(f"{each.forgotten_rows:,}", f"{each.unverified_offsets:,}", f"{each.waiting_offsets:,}"),
                each.note or ("complete" if each.is_complete else "NOT COMPLETE"),
            ]
            for each in audits
        ),
        empty="No tables.",
    )
    _show_faults(audits, table)


def _show_faults(audits: "Sequence[TopicAudit]", table: str) -> None:
    faults = [row for each in audits for row in each.rows if not row.is_complete]
    if faults:
        print_table(
            ["TOPIC", "PARTITION", "ROWS", "MISSING", "DOUBLED", "OFFSETS"],
            (
                [
                    *(row.topic, row.partition, f"{row.lake_rows:,}"),
                    *(f"{row.missing_rows:,}", f"{row.duplicate_rows:,}"),
                    _ranges([*row.missing_ranges, *row.duplicate_ranges]),
                ]
                for row in faults[:_SHOWN_MAX]
            ),
            empty="",
        )
        if len(faults) > _SHOWN_MAX:
            print(f"and {len(faults) - _SHOWN_MAX} more partitions, in {table}")
    for each in audits:
        for path in each.missing_files[:_SHOWN_MAX]:
            print(f"missing file of {each.lake.topic}: {each.lake.path / path}")


def _ranges(ranges: "Sequence[Any]") -> str:
    shown = [f"{each.start}-{each.end - 1}" for each in ranges[:_RANGES_SHOWN_MAX]]
    return ", ".join([*shown, *(["..."] if len(ranges) > _RANGES_SHOWN_MAX else [])])


def _document(found: "TopicAudit") -> dict[str, object]:
    return {
        "topic": found.lake.topic,
        "topic_id": found.lake.topic_id,
        "is_complete": found.is_complete,
        "lake_rows": found.lake_rows,
        "missing_rows": found.missing_rows,
        "lost_rows": found.lost_rows,
        "duplicate_rows": found.duplicate_rows,
        "expired_offsets": found.expired_offsets,
        "forgotten_rows": found.forgotten_rows,
        "unverified_offsets": found.unverified_offsets,
        "waiting_offsets": found.waiting_offsets,
        "missing_files": found.missing_files,
        "note": found.note,
        "faults": [
            {
                "partition": row.partition,
                "lake_rows": row.lake_rows,
                "missing_rows": row.missing_rows,
                "duplicate_rows": row.duplicate_rows,
                "missing_ranges": [[each.start, each.end] for each in row.missing_ranges],
                "duplicate_ranges": [[each.start, each.end] for each in row.duplicate_ranges],
            }
            for row in found.rows
            if not row.is_complete
        ],
    }


def _incomplete(audits: "Sequence[TopicAudit]") -> str:
    """What is missing, as a sentence; empty when nothing is."""
    wrong = [each for each in audits if not each.is_complete]
    if not wrong:
        return ""
    first = wrong[0]
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    missing = first.missing_rows + first.lost_rows
    before = "after `portico pipeline audit --forget-missing-files`, " if first.missing_files else ""
    return (
        f"topic {first.lake.topic}{others} is not complete: {missing} rows missing, {first.duplicate_rows} "
        f"doubled, {len(first.missing_files)} files missing; {before}`portico pipeline backfill` brings what "
        "the brokers still have"
    )
