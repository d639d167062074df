"""`portico instance`: create, list, show, resize, suspend, resume, delete; `deletions` adds the way back."""

from typing import Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.commands.deletions import add_commands, list_kept
from ctl.console_client import Console, instance_path
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant, parse_rate, parse_size
from ctl.output import print_facts, print_json, print_table

app = typer.Typer(no_args_is_help=True)

ProduceRate = Annotated[int, typer.Option(parser=parse_rate, metavar="RATE", help="For example 20MB/s.")]
ConsumeRate = Annotated[int, typer.Option(parser=parse_rate, metavar="RATE", help="For example 40MB/s.")]
Capacity = Annotated[int, typer.Option(parser=parse_size, metavar="SIZE", help="For example 10GB.")]
OptionalRate = Annotated[int | None, typer.Option(parser=parse_rate, metavar="RATE")]
OptionalSize = Annotated[int | None, typer.Option(parser=parse_size, metavar="SIZE")]
Cidrs = Annotated[list[str] | None, typer.Option("--whitelist", metavar="CIDR", help="Repeat for several.")]
AllowAll = Annotated[bool, typer.Option("--allow-all", help="Admit every address.")]
Count = Annotated[int | None, typer.Option(min=1)]
FullBehaviour = Annotated[str | None, typer.Option(metavar="reject|stall", help="What a full instance does.")]
RequestPercent = Annotated[
    int | None,
    typer.Option(min=0, metavar="PERCENT", help="CPU time in % of a core; 0: by the rates."),
]
AutoCreate = Annotated[bool | None, typer.Option("--auto-create-topics/--no-auto-create-topics")]
LegacyClients = Annotated[
    bool | None,
    typer.Option("--legacy-clients/--no-legacy-clients", help="Serve clients from before Kafka 0.11."),
]


@app.command()
def create(
    name: str,
    produce_rate: ProduceRate,
    consume_rate: ConsumeRate,
    capacity: Capacity,
    whitelist: Cidrs = None,
    allow_all: AllowAll = False,
    partitions_max: Count = None,
    connections_max: Count = None,
    full_behaviour: FullBehaviour = None,
    request_percent: RequestPercent = None,
    auto_create_topics: AutoCreate = None,
    legacy_clients: LegacyClients = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until it serves; else print what follows.")
    ] = True,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create an instance and wait until it serves."""
    if not whitelist and not allow_all:
        raise usage("say who may connect: --whitelist CIDR (repeatable) or --allow-all")
    body: dict[str, Any] = {
        "name": name,
        "produce_rate_bytes_per_s": produce_rate,
        "consume_rate_bytes_per_s": consume_rate,
        "capacity_bytes": capacity,
        "whitelist": whitelist or [],
        "allow_all": allow_all,
    }
    body |= _optional(full_behaviour, auto_create_topics, legacy_clients, partitions_max, connections_max)
    if request_percent is not None:
        body["request_percent"] = request_percent
    with Console.of(data_dir, tenant) as console:
        operation = console.begin("instances", body)
        instance = console.follow(operation) if wait else console.get(f"instances/{operation['instance_id']}")
        _show(instance, as_json)


def _optional(
    full_behaviour: str | None,
    auto_create_topics: bool | None,
    legacy_clients: bool | None,
    partitions_max: int | None,
    connections_max: int | None,
) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if full_behaviour is not None:
        body["full_behaviour"] = full_behaviour
    if auto_create_topics is not None:
        body["auto_create_topics"] = auto_create_topics
    if legacy_clients is not None:
        body["legacy_clients"] = legacy_clients
    limits = {"partitions_max": partitions_max, "connections_max": connections_max}
    if chosen := {limit: value for limit, value in limits.items() if value is not None}:
        body["limits"] = chosen
    return body


@app.command("list")
def list_instances(
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Those that wait for their purge, and until when.")
    ] = False,
    absent: Annotated[
        bool, typer.Option("--absent", help="Those that brokers hold and the console does not know.")
    ] = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List instances."""
    if deleted or absent:
        list_kept(absent=absent, as_json=as_json, tenant=tenant, data_dir=data_dir)
        return
    with Console.of(data_dir, tenant) as console:
        items = console.all_items("instances")
    if as_json:
        print_json(items)
        return
    columns = [
        "ID",
        "NAME",
        "TENANT",
        "STATE",
        "BOOTSTRAP SERVERS",
        "PRODUCE",
        "CONSUME",
        "STORED",
        "CAPACITY",
    ]
    print_table(
        columns, (_row(item) for item in items), empty="No instances. Create one: portico instance create"
    )


def _row(item: Any) -> list[str]:
    return [
        item["id"],
        item["name"],
        item["tenant"],
        item["state"] + (" (full)" if item.get("blocked") else ""),
        item["bootstrap_servers"],
        format_bytes(item["produce_rate_bytes_per_s"], rate=True),
        format_bytes(item["consume_rate_bytes_per_s"], rate=True),
        _stored(item),
        format_bytes(item["capacity_bytes"]),
    ]


@app.command()
def show(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show one instance."""
    with Console.of(data_dir, tenant) as console:
        _show(console.get(instance_path(instance)), as_json)


@app.command()
def resize(
    instance: InstanceArgument,
    produce_rate: OptionalRate = None,
    consume_rate: OptionalRate = None,
    capacity: OptionalSize = None,
    partitions_max: Count = None,
    connections_max: Count = None,
    full_behaviour: FullBehaviour = None,
    request_percent: RequestPercent = None,
    auto_create_topics: AutoCreate = None,
    legacy_clients: LegacyClients = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Change what an instance bought, up or down; clients stay connected."""
    sizes = {
        "produce_rate_bytes_per_s": produce_rate,
        "consume_rate_bytes_per_s": consume_rate,
        "capacity_bytes": capacity,
    }
    body = {field: value for field, value in sizes.items() if value is not None}
    body |= _optional(full_behaviour, auto_create_topics, legacy_clients, partitions_max, connections_max)
    if request_percent is not None:
        body["request_percent"] = request_percent
    if not body:
        raise usage("nothing to change: name at least one of --produce-rate, --consume-rate, --capacity, ...")
    with Console.of(data_dir, tenant) as console:
        _show(console.call("PATCH", instance_path(instance), body), as_json)


@app.command()
def suspend(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Cut all clients and refuse new ones; data stays."""
    with Console.of(data_dir, tenant) as console:
        _show(console.call("POST", instance_path(instance, "suspend")), as_json)


@app.command()
def resume(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Admit clients again."""
    with Console.of(data_dir, tenant) as console:
        resumed = console.call("POST", instance_path(instance, "resume"))
        _show(console.wait_until_serving(resumed["id"]), as_json)


@app.command()
def delete(
    instance: InstanceArgument,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete an instance. Its data is kept for a grace (7 days by default), then purged: see `undelete`."""
    with Console.of(data_dir, tenant) as console:
        found = console.get(instance_path(instance))
        gone = console.call("DELETE", instance_path(found["id"]))
    if as_json:
        print_json(
            {
                "id": found["id"],
                "name": found["name"],
                "deleted": True,
                "purge_after": gone["deletion"]["purge_after"],
            }
        )
    else:
        print_facts(
            [
                ("deleted", f"{found['name']} ({found['id']})"),
                ("kept until", gone["deletion"]["purge_after"]),
                ("take it back", f"portico instance undelete {found['id']}"),
            ]
        )


def _request_time(item: Any) -> str:
    derived = " (goes with the rates)" if item["request_percent_derived"] else ""
    return f"{item['request_percent']} % of a core{derived}"


def _stored(item: Any) -> str:
    return "unknown" if item["stored_bytes"] is None else format_bytes(item["stored_bytes"])


def _show(item: Any, as_json: bool) -> None:
    if as_json:
        print_json(item)
        return
    reason = f": {item['state_reason']}" if item.get("state_reason") else ""
    admits = "every address" if item["allow_all"] else ", ".join(item["whitelist"]) or "nobody"
    limits = item["limits"]
    print_facts(
        [
            ("id", item["id"]),
            ("name", item["name"]),
            ("tenant", item["tenant"]),
            ("state", item["state"] + reason),
            ("bootstrap servers", item["bootstrap_servers"]),
            ("produce rate", format_bytes(item["produce_rate_bytes_per_s"], rate=True)),
            ("consume rate", format_bytes(item["consume_rate_bytes_per_s"], rate=True)),
            ("request time", _request_time(item)),
            ("capacity", format_bytes(item["capacity_bytes"])),
            (
                "stored",
                _stored(item) + (" - full, producers blocked" if item["blocked"] else ""),
            ),
            ("partitions", f"{item['partitions'] or 0} of {limits['partitions_max']}"),
            ("connections", f"{item['connections']} of {limits['connections_max']}"),
            ("admits", admits),
            ("when full", item["full_behaviour"]),
            ("auto-create topics", "yes" if item["auto_create_topics"] else "no"),
            ("clients before Kafka 0.11", "served" if item["legacy_clients"] else "refused"),
        ]
    )


add_commands(app, _show)
