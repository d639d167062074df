"""`portico pipeline forget`: the records of some keys out of what was loaded of a topic."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctl.commands.pipeline.lake_upkeep import TopicName, lakes_of
from ctl.confirm import Yes, confirm
from ctl.errors import CommandError, usage
from ctl.options import InstanceArgument
from ctl.output import Answer, print_table
from ctl.pipeline.run import LakeJob
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pipeline.lake.forget import ForgetResult

_ENCODINGS = ("text", "base64", "hex")


def forget(
    start_job: LakeJob,
    instance: InstanceArgument,
    topic: TopicName,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Repeat for several. Other users see it in lists of processes."),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One key a line; - is the standard input.")
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="text|base64|hex", help="How keys are written; text is UTF-8.")
    ] = "text",
    only_look: Annotated[bool, typer.Option("--dry-run", help="Count the rows; change nothing.")] = False,
    yes: Yes = False,
) -> Answer:
    """Delete every record of some keys from a topic's tables, and every file that held one, and prove it."""
    keys = _keys(key or [], key_file, encoding)
    if not only_look:
        confirm(
            f"All records of {len(keys)} key{'s' * (len(keys) > 1)} loaded of topic {topic} go for good, and "
            "older versions of its tables with them.",
            yes=yes,
        )
    with start_job("forget", f"{instance} {topic}") as run:
        from pipeline.lake.forget import forget as forget_keys

        results = [
            forget_keys(run.layout, lake, keys, run.progress, now_ms=epoch_ms(), only_look=only_look)
            for lake in lakes_of(run, instance, [topic])
        ]
    return Answer([_document(each) for each in results], lambda: _show(results))


def _keys(told: Sequence[str], file: Path | None, encoding: str) -> frozenset[bytes]:
    if encoding not in _ENCODINGS:
        raise usage(f"--encoding is text, base64 or hex, not '{encoding}'")
    found = list(told)
    if file is not None:
        found += _lines(file)
    if not found:
        raise usage("name keys with --key or --key-file")
    return frozenset(_key(each, encoding) for each in found)


def _lines(file: Path) -> list[str]:
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the keys in {file} cannot be read: {error}") from error
    return text.splitlines()


def _key(text: str, encoding: str) -> bytes:
    """Raises: CommandError, which does not repeat the key."""
    try:
        if encoding == "text":
            return text.encode()
        return bytes.fromhex(text) if encoding == "hex" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise usage(f"one of the keys is no {encoding}") from None


def _document(result: "ForgetResult") -> dict[str, object]:
    return {
        "topic": result.lake.topic,
        "topic_id": result.lake.topic_id,
        "run": result.run,
        "rows": result.rows,
        "proof": None if result.proof is None else str(result.proof),
        "tables": [
            {
                "kind": each.kind,
                "rows": each.rows,
                "files_rewritten": each.files_rewritten,
                "files_deleted": each.files_deleted,
                "version": each.version,
            }
            for each in result.tables
        ],
    }


def _show(results: "Sequence[ForgetResult]") -> None:
    print_table(
        ["TOPIC", "TABLE", "ROWS", "FILES REWRITTEN", "FILES DELETED"],
        (
            [each.topic, each.kind, f"{each.rows:,}", each.files_rewritten, each.files_deleted]
            for result in results
            for each in result.tables
        ),
        empty="No tables.",
    )
    for result in results:
        if result.proof is not None:
            print(f"run {result.run} of {result.lake.topic} is noted in {result.proof}")
    if any(result.proof is not None for result in results):
        print(
            "the brokers keep their records until retention or compaction removes them: "
            "`portico topic` and a tombstone are for those"
        )
