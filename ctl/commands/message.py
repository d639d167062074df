"""`portico message`: what is in a topic, and one message more."""

import sys
from typing import Annotated, TypedDict

import typer

from contracts.units import counted
from ctl.command import Commands
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer

app = Commands()

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]
Partition = Annotated[int | None, typer.Option(min=0)]


class _Payload(TypedDict):
    format: str
    text: str
    size_bytes: int
    is_cut: bool
    problem: str


class _Message(TypedDict):
    partition: int
    offset: int
    timestamp: str | None
    timestamp_ms: int
    key: _Payload | None
    value: _Payload | None


class _Unreadable(TypedDict):
    partition: int
    first_offset: int
    last_offset: int
    reason: str


class _Found(TypedDict):
    messages: list[_Message]
    unreadable: list[_Unreadable]
    scanned_messages: int
    next_cursor: str | None


@app.command("list")
def list_messages(
    console: TenantConsole,
    instance: InstanceArgument,
    topic: Topic,
    partition: Partition = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    offset: Annotated[int | None, typer.Option(min=0, help="From here on, instead of the newest.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="From this time on, RFC 3339.")] = None,
    text: Annotated[str | None, typer.Option(help="Only with this in key or value.")] = None,
    key: Annotated[str | None, typer.Option(help="Only of this key.")] = None,
    header: Annotated[str | None, typer.Option(metavar="NAME[=VALUE]")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Only JSON of which this holds: '@.amount > 100'.")
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="Go on where a list before this one ended.")] = None,
) -> Answer:
    """Show messages of a topic, the newest first."""
    asked = {
        "partition": partition,
        "limit": limit,
        "offset": offset,
        "at": at,
        "text": text,
        "key": key,
        "header": header,
        "json": where,
        "cursor": cursor,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    found = console.get(instance_path(instance, "topics", topic, "messages"), **given)
    return Answer(found, lambda: _show(found))


@app.command()
def send(
    console: TenantConsole,
    instance: InstanceArgument,
    topic: Topic,
    value: Annotated[str | None, typer.Option(help="Without it, what comes on stdin.")] = None,
    key: Annotated[str | None, typer.Option()] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Repeat for several.")
    ] = None,
    partition: Partition = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="No value: deletes its key.")] = False,
) -> Answer:
    """Write one message."""
    if tombstone and value is not None:
        raise usage("--tombstone has no --value")
    if value is None and not tombstone:
        value = sys.stdin.read()
    headers = [dict(zip(("name", "value"), _pair(one), strict=True)) for one in header or ()]
    body = {"partition": partition, "key": key, "value": value, "headers": headers}
    sent = console.call("POST", instance_path(instance, "topics", topic, "messages"), body)
    return Answer(sent, lambda: print(f"partition {sent['partition']}, offset {sent['offset']}"))


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise usage(f"--header '{text}' is not NAME=VALUE")
    return name, value


def _show(found: _Found) -> None:
    """A line for each message: what producers wrote is neither markup nor a terminal's command."""
    for one in found["messages"]:
        place = f"{one['partition']}:{one['offset']}"
        when = one["timestamp"] or one["timestamp_ms"]
        print(f"{place}  {when}  {_line(one['key'])}  {_line(one['value'])}")
    for batch in found["unreadable"]:
        place = f"{batch['partition']}:{batch['first_offset']}-{batch['last_offset']}"
        print(f"{place}  not shown: {_plain(batch['reason'])}")
    told = f"{counted(len(found['messages']), 'message')}, {found['scanned_messages']:,} looked at"
    more = found["next_cursor"]
    print(told + (f"; more with --cursor {more}" if more else ""), file=sys.stderr)


def _line(payload: _Payload | None) -> str:
    if payload is None:
        return "-"
    rest = f"... ({payload['size_bytes']:,} bytes)" if payload["is_cut"] else ""
    problem = f"  ({payload['problem']})" if payload["problem"] else ""
    return ("hex:" if payload["format"] == "hex" else "") + _plain(payload["text"]) + rest + _plain(problem)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
