"""`portico pipeline decode`, `redrive`, `compact` and `expire`: lake tables and what is made of them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from contracts.units import format_bytes
from ctl.errors import CommandError, usage
from ctl.options import InstanceArgument
from ctl.output import Answer, in_table, print_table
from ctl.pipeline.lineage import table
from ctl.pipeline.run import JobRun, LakeJob, say
from pipeline.errors import PipelineError
from pipeline.lake.planning.compact_plan import RETENTION_H_MIN

if TYPE_CHECKING:
    from pipeline.lake.decode.job import DecodeResult
    from pipeline.lake.decode.registry import RegistryAt, TopicSchemas
    from pipeline.lake.decode.schema import RecordSchema
    from pipeline.lake.lake_tables import LakeTable
    from pipeline.progress import Progress
    from pipeline.store import AnyPath

_ON_ERROR: Final = ("dlq", "drop", "pause")
LAKE_KINDS: Final = ("lake", "decoded", "dead_letters")
_AGE: Final = re.compile(r"(\d{1,6})(h|d)", re.ASCII)
_HOURS: Final = {"h": 1, "d": 24}

TopicName = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="As the tenant names it.")]
TopicNames = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Repeat for several; default: all.")
]
SchemaPath = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help='Like {"version": 1, "format": "json", "fields": "user STRING NOT NULL, at TIMESTAMP"}.',
    ),
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Instead of --schema: a schema registry, with the newest schema in subject TOPIC-value.",
    ),
]
RegistryConfig = Annotated[
    Path | None,
    typer.Option(
        "--registry-config",
        metavar="FILE",
        help="A line like basic.auth.user.info=USER:PASSWORD or bearer.auth.token=TOKEN; "
        "default: what PORTICO_REGISTRY_AUTH says, USER:PASSWORD.",
    ),
]
MessageName = Annotated[
    str,
    typer.Option("--message", metavar="NAME", help="Of Protobuf, the table's message; default: the first."),
]
Retention = Annotated[
    str,
    typer.Option(
        "--retention",
        metavar="TIME",
        help="How long files that no version needs stay for readers of older ones.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="lake|decoded|dead_letters",
        help="Which tables; repeat for several; default: lake.",
    ),
]


def decode(
    start_job: LakeJob,
    instance: InstanceArgument,
    topic: TopicName,
    schema: SchemaPath = None,
    registry: RegistryUrl = None,
    registry_config: RegistryConfig = None,
    message: MessageName = "",
    on_error: Annotated[
        str, typer.Option(metavar="dlq|drop|pause", help="What becomes of records that do not parse.")
    ] = "dlq",
) -> Answer:
    """Decode what was loaded of a topic into a typed table; what does not parse becomes dead letters."""
    if on_error not in _ON_ERROR:
        raise usage(f"--on-error is dlq, drop or pause, not '{on_error}'")
    at = _registry(schema, registry, registry_config)
    with start_job("decode", f"{instance} {topic}") as run:
        from pipeline.lake.decode.job import OnError
        from pipeline.lake.decode.job import decode as decode_table

        found = _by(schema, at, topic, message)
        results = [
            decode_table(run.spark, run.layout, lake, found, OnError(on_error), progress)
            for lake, progress in _each(run, "decode", lakes_of(run, instance, [topic]))
        ]
        for each in results:
            if each.rows:
                for place in each.tables.values():
                    run.lineage.moved(table(each.lake.path), table(place))
    return Answer([_decoded_document(each) for each in results], lambda: _show_decoded(results))


def redrive(
    start_job: LakeJob,
    instance: InstanceArgument,
    topic: TopicName,
    schema: SchemaPath = None,
    registry: RegistryUrl = None,
    registry_config: RegistryConfig = None,
    message: MessageName = "",
    error_classes: Annotated[
        list[str] | None,
        typer.Option(
            "--error-class",
            metavar="CLASS",
            help="Only these dead letters; repeat for several; default: all.",
        ),
    ] = None,
) -> Answer:
    """Decode a topic's dead letters again; those that parse now move to the decoded table."""
    at = _registry(schema, registry, registry_config)
    with start_job("redrive", f"{instance} {topic}") as run:
        from pipeline.lake.decode.job import redrive as redrive_table

        found = _by(schema, at, topic, message)
        results = [
            redrive_table(run.spark, run.layout, lake, found, progress, error_classes or ())
            for lake, progress in _each(run, "redrive", lakes_of(run, instance, [topic]))
        ]
    return Answer([_decoded_document(each) for each in results], lambda: _show_decoded(results))


def compact(
    start_job: LakeJob,
    instance: InstanceArgument,
    topics: TopicNames = None,
    kinds: Kinds = None,
    retention: Retention = "7d",
) -> Answer:
    """Join small files into large ones, ordered by time, also while a table is loaded."""
    wanted, hours = _kinds(kinds), _retention(retention)
    with start_job("compact", subject_of(instance, topics=topics)) as run:
        from pipeline.lake.compact import compact as compact_table
        from pipeline.lake.compact import vacuum

        now = datetime.now(UTC)
        shown = []
        for part, progress in _each(run, "compact", _tables(run, instance, topics, wanted)):
            result = compact_table(run.layout, part.path, now, progress)
            result.vacuumed_files = vacuum(part.path, hours)
            shown.append((part, result))
    return in_table(
        [part.named() | _plain(result) for part, result in shown],
        ["TABLE", "TOPIC", "FILES", "NOW", "ROWS REWRITTEN", "SIZE", "DELETED"],
        (
            [
                *(part.kind, part.lake.topic, result.files_before, result.files_after),
                *(f"{result.rewritten_rows:,}", format_bytes(result.rewritten_bytes)),
                result.vacuumed_files,
            ]
            for part, result in shown
        ),
        empty="No tables.",
    )


def expire(
    start_job: LakeJob,
    instance: InstanceArgument,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Like 30d: what was loaded before goes.",
        ),
    ],
    topics: TopicNames = None,
    kinds: Kinds = None,
    retention: Retention = "7d",
) -> Answer:
    """Remove what was loaded long ago. Positions stay: nothing of it is loaded again."""
    wanted = _kinds(kinds)
    age, hours = parse_age(older_than, "--older-than"), _retention(retention)
    with start_job("expire", subject_of(instance, topics=topics)) as run:
        from pipeline.lake.compact import expire as expire_table
        from pipeline.lake.compact import vacuum

        now = datetime.now(UTC)
        shown = []
        for part, _ in _each(run, "expire", _tables(run, instance, topics, wanted)):
            result = expire_table(part.path, now, timedelta(hours=age))
            result.vacuumed_files = vacuum(part.path, hours)
            shown.append((part, result))
    return in_table(
        [part.named() | _plain(result) for part, result in shown],
        ["TABLE", "TOPIC", "HOURS BEFORE", "FILES", "ROWS", "SIZE", "DELETED"],
        (
            [
                *(part.kind, part.lake.topic, f"{result.before:%Y-%m-%dT%H:%MZ}", result.files),
                *(f"{result.rows:,}", format_bytes(result.bytes), result.vacuumed_files),
            ]
            for part, result in shown
        ),
        empty="No tables.",
    )


def parse_age(text: str, option: str) -> int:
    """Hours of an age such as `30d`. Raises: CommandError, wrong usage."""
    found = _AGE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise usage(f"{option} '{text}' is no age like 30d or 12h: whole hours or days, at least one")
    return int(found[1]) * _HOURS[found[2]]


def _retention(text: str) -> int:
    hours = parse_age(text, "--retention")
    if hours < RETENTION_H_MIN:
        raise usage(
            f"--retention {text} could take files away from running readers: at least {RETENTION_H_MIN}h"
        )
    return hours


@dataclass(frozen=True)
class TablePart:
    """One table to maintain."""

    kind: str
    lake: "LakeTable"
    path: "AnyPath"

    def named(self) -> dict[str, object]:
        """For scripts."""
        return {
            "kind": self.kind,
            "topic": self.lake.topic,
            "topic_id": self.lake.topic_id,
            "table": str(self.path),
        }


def _plain(result: Any) -> dict[str, object]:
    told = {name: value for name, value in vars(result).items() if name != "table"}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}


def _kinds(kinds: Sequence[str] | None) -> list[str]:
    for each in kinds or ():
        if each not in LAKE_KINDS:
            raise usage(f"--table is lake, decoded or dead_letters, not '{each}'")
    return list(dict.fromkeys(kinds or ["lake"]))


def subject_of(*instances: str, topics: Sequence[str] | None) -> str:
    """What a run is told to work on."""
    return ", ".join([*instances, *(topics or ())])[:300]


def _registry(schema: Path | None, url: str | None, config: Path | None) -> "RegistryAt | None":
    """Where a registry is; None: a schema file is used. Raises: CommandError."""
    from pipeline.lake.decode.registry import registry_at

    if (schema is None) == (url is None):
        raise usage("name --schema with a file, or --registry with the URL of a schema registry")
    if url is None:
        return None
    try:
        return registry_at(url, "" if config is None else _read(config).decode(errors="replace"), os.environ)
    except PipelineError as error:
        raise usage(error.sentence) from error


def _by(
    schema: Path | None, at: "RegistryAt | None", topic: str, message: str
) -> "RecordSchema | TopicSchemas":
    from pipeline.lake.decode.registry import TopicSchemas
    from pipeline.lake.decode.schema import read_schema

    if at is not None:
        return TopicSchemas(at, topic, message)
    assert schema is not None, "one of both is named"
    return read_schema(_read(schema), str(schema))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"the file {path} cannot be read: {error.strerror}") from error


def lakes_of(run: JobRun, instance: str, topics: Sequence[str] | None) -> "list[LakeTable]":
    """An instance's tables, of some topics or all. Raises: PipelineError."""
    from pipeline.lake.lake_tables import lake_tables

    told = run.instance(instance)
    return lake_tables(run.layout, str(told["id"]), list(dict.fromkeys(topics)) if topics else None)


def _tables(
    run: JobRun, instance: str, topics: Sequence[str] | None, kinds: Sequence[str]
) -> list[TablePart]:
    from deltalake import DeltaTable

    lakes = lakes_of(run, instance, topics)
    parts = [
        TablePart(kind, lake, lake.path if kind == "lake" else lake.derived(run.layout, kind))
        for lake in lakes
        for kind in kinds
    ]
    found = [each for each in parts if DeltaTable.is_deltatable(str(each.path))]
    if not found:
        raise CommandError(
            f"there is no {' or '.join(kinds)} table of {instance}: `portico pipeline decode` makes them"
        )
    return found


def _each(run: JobRun, job: str, items: Sequence[Any]) -> "list[tuple[Any, Progress]]":
    """With the run's own progress where there is one item, else a line for each."""
    if len(items) == 1:
        return [(items[0], run.progress)]
    names = [item.lake.topic if isinstance(item, TablePart) else item.topic for item in items]
    return [(item, run.part(job, name)) for item, name in zip(items, names, strict=True)]


def _show_decoded(results: "Sequence[DecodeResult]") -> None:
    print_table(
        [
            "TOPIC",
            "RECORDS",
            "DECODED",
            "DEAD LETTERS",
            "DROPPED",
            "IN ALL",
            "DECODED",
            "DEAD LETTERS",
            "DROPPED",
        ],
        (
            [
                *(each.lake.topic, f"{each.rows:,}", f"{each.decoded:,}", f"{each.dead_letters:,}"),
                *(f"{each.dropped:,}", *(f"{each.totals[name]:,}" for name in _TOTALS)),
            ]
            for each in results
        ),
        empty="No tables.",
    )
    for each in results:
        for note in each.notes:
            say(note)
        if each.errors:
            rows = ([name, f"{count:,}"] for name, count in each.errors.most_common())
            print_table(["ERROR", "RECORDS"], rows, empty="")
        if each.unknown_fields:
            rows = ([name, f"{count:,}"] for name, count in each.unknown_fields.most_common(20))
            print_table(["FIELD THAT THE SCHEMA LACKS", "RECORDS"], rows, empty="")


_TOTALS: Final = ("lake_rows", "decoded", "dead_letters", "dropped")


def _decoded_document(result: "DecodeResult") -> dict[str, object]:
    return {
        "topic": result.lake.topic,
        "topic_id": result.lake.topic_id,
        "records": result.rows,
        "decoded": result.decoded,
        "dead_letters": result.dead_letters,
        "dropped": result.dropped,
        "errors": dict(result.errors),
        "unknown_fields": dict(result.unknown_fields),
        "notes": result.notes,
        "totals": result.totals,
        "tables": result.tables,
    }
