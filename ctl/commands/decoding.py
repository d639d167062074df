"""`portico decoding`: by which schemas messages are shown, and what of them is masked."""

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from ctl.command import Commands
from ctl.console_client import instance_path
from ctl.console_options import TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument
from ctl.output import Answer, print_facts

app = Commands()
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command()
def show(console: TenantConsole, instance: InstanceArgument, topic: Topic) -> Answer:
    """Show how messages of a topic are read."""
    found = console.get(instance_path(instance, "topics", topic, "decoding"))
    registry = console.get(instance_path(instance, "schema-registry"))
    return Answer(found | {"registry": registry}, lambda: _show(found, registry))


@app.command("set")
def set_decoding(
    console: TenantConsole,
    instance: InstanceArgument,
    topic: Topic,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A schema of values, of .avsc, .proto or .json.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="avro, protobuf or json; by the file's name else.")] = None,
    message: Annotated[str, typer.Option(help="Which message of a Protobuf schema; the first else.")] = "",
    registry_header: Annotated[
        bool, typer.Option("--registry-header", help="Values begin as a registry's serializers write them.")
    ] = False,
    mask: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="A field's name or path. Repeat for several.")
    ] = None,
    mask_header: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    mask_key: Annotated[bool, typer.Option("--mask-key")] = False,
) -> Answer:
    """Read messages by a schema, and mask fields for all but owners. What is left out is unset."""
    text = "" if schema is None else _text(schema)
    body = {
        "kind": kind or (None if schema is None else _kind(schema)),
        "schema_text": text,
        "message": message,
        "has_registry_header": registry_header,
        "masked_fields": mask or [],
        "masked_headers": mask_header or [],
        "masks_key": mask_key,
    }
    found = console.call("PUT", instance_path(instance, "topics", topic, "decoding"), body)
    return Answer(found, lambda: _show(found, None))


@app.command()
def clear(console: TenantConsole, instance: InstanceArgument, topic: Topic) -> Answer:
    """Show messages as they are again, with nothing masked."""
    console.call("DELETE", instance_path(instance, "topics", topic, "decoding"))
    return Answer(
        {}, lambda: print(f"messages of {topic} are shown as they are, or by the registry's schemas")
    )


@app.command()
def registry(
    console: TenantConsole,
    instance: InstanceArgument,
    url: Annotated[str | None, typer.Argument(help="Left out: it is shown.")] = None,
    user: Annotated[str, typer.Option()] = "",
    password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Its password.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Ask it no more.")] = False,
) -> Answer:
    """Show or set the schema registry of an instance: one with Confluent's API."""
    path = instance_path(instance, "schema-registry")
    if remove:
        if url is not None:
            raise usage("--remove has no URL")
        console.call("DELETE", path)
    elif url is not None:
        password = "" if password_file is None else _text(password_file).rstrip("\r\n")
        console.call("PUT", path, {"url": url, "user": user, "password": password})
    found = console.get(path)
    return Answer(found, lambda: print_facts(_registry_facts(found)))


class _Registry(TypedDict):
    url: str | None
    has_password: bool


class _Decoding(TypedDict):
    kind: str | None
    schema_text: str
    masked_fields: list[str]
    masked_headers: list[str]
    masks_key: bool


def _show(found: _Decoding, registry: _Registry | None) -> None:
    masked = [*found["masked_fields"], *(f"header {one}" for one in found["masked_headers"])]
    facts = [
        ("schema", f"{found['kind']}, {len(found['schema_text'])} characters" if found["kind"] else "none"),
        ("masked", ", ".join([*masked, *(["the key"] * found["masks_key"])]) or "nothing"),
    ]
    print_facts([*facts, *(_registry_facts(registry) if registry is not None else ())])


def _registry_facts(found: _Registry) -> list[tuple[str, str]]:
    password = ", with a password" if found["has_password"] else ""
    return [("registry", f"{found['url']}{password}" if found["url"] else "none")]


def _kind(schema: Path) -> str:
    kinds = {".avsc": "avro", ".proto": "protobuf", ".json": "json"}
    if schema.suffix not in kinds:
        raise usage(f"'{schema.name}' is none of {', '.join(kinds)}: name --kind")
    return kinds[schema.suffix]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"'{path}' cannot be read: {error}") from error
