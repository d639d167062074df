"""`portico instance`: create, list, show, resize, suspend, resume, delete; `deletions` adds the way back."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import typer

from contracts.units import format_bytes
from contracts.users import SecurityProtocol
from ctl.command import Commands, Made
from ctl.commands.deletions import absent_instances, add_commands, deleted_instances
from ctl.commands.moves import InstanceOptional, moved
from ctl.confirm import Yes, confirm
from ctl.console_client import instance_path
from ctl.console_options import OperatorConsole, TenantConsole
from ctl.errors import usage
from ctl.options import InstanceArgument, parse_rate, parse_size
from ctl.output import Answer, in_facts, in_table

app = Commands()

ProduceRate = Annotated[int, typer.Option(parser=parse_rate, metavar="RATE", help="For example 20MB/s.")]
ConsumeRate = Annotated[int, typer.Option(parser=parse_rate, metavar="RATE", help="For example 40MB/s.")]
Capacity = Annotated[int, typer.Option(parser=parse_size, metavar="SIZE", help="For example 10GB.")]
OptionalRate = Annotated[int | None, typer.Option(parser=parse_rate, metavar="RATE")]
OptionalSize = Annotated[int | None, typer.Option(parser=parse_size, metavar="SIZE")]
Cidrs = Annotated[list[str] | None, typer.Option("--whitelist", metavar="CIDR", help="Repeat for several.")]
AllowAll = Annotated[bool, typer.Option("--allow-all", help="Admit every address.")]
Count = Annotated[int | None, typer.Option(min=1)]
PartitionsDefault = Annotated[int | None, typer.Option(min=1, help="Of a topic made without a number.")]
MutationRateMax = Annotated[
    int | None, typer.Option(min=1, help="Partitions that clients create and delete per second.")
]
MessageBytesMax = Annotated[int | None, typer.Option(min=1, help="The largest batch of records.")]
FullBehaviour = Annotated[str | None, typer.Option(metavar="reject|stall", help="What a full instance does.")]
RequestPercent = Annotated[
    int | None,
    typer.Option(min=0, metavar="PERCENT", help="CPU time in % of a core; 0: by the rates."),
]
AutoCreate = Annotated[bool | None, typer.Option("--auto-create-topics/--no-auto-create-topics")]
Listeners = Annotated[
    list[str] | None,
    typer.Option(
        "--listener", metavar="|".join(SecurityProtocol), help="How clients come in; repeat for several."
    ),
]
LegacyClients = Annotated[
    bool | None,
    typer.Option("--legacy-clients/--no-legacy-clients", help="Serve clients from before Kafka 0.11."),
]
ClientMetrics = Annotated[
    bool | None,
    typer.Option("--client-metrics/--no-client-metrics", help="Ask clients for metrics of their own."),
]


def _chosen(
    partitions_max: Count = None,
    partitions_default: PartitionsDefault = None,
    connections_max: Count = None,
    controller_mutation_rate_max: MutationRateMax = None,
    message_bytes_max: MessageBytesMax = None,
    full_behaviour: FullBehaviour = None,
    request_percent: RequestPercent = None,
    auto_create_topics: AutoCreate = None,
    legacy_clients: LegacyClients = None,
    client_metrics: ClientMetrics = None,
    listener: Listeners = None,
) -> dict[str, Any]:
    limits = {
        "partitions_max": partitions_max,
        "partitions_default": partitions_default,
        "connections_max": connections_max,
        "controller_mutation_rate_max": controller_mutation_rate_max,
        "message_bytes_max": message_bytes_max,
    }
    given = {
        "full_behaviour": full_behaviour,
        "auto_create_topics": auto_create_topics,
        "legacy_clients": legacy_clients,
        "client_metrics": client_metrics,
        "security_protocols": listener or None,
        "limits": {limit: value for limit, value in limits.items() if value is not None} or None,
        "request_percent": request_percent,
    }
    return {name: value for name, value in given.items() if value is not None}


Choices = Annotated[dict[str, Any], Made(_chosen)]
"""What an order may leave out, in the words of the API."""


@app.command()
def create(
    console: TenantConsole,
    chosen: Choices,
    name: str,
    produce_rate: ProduceRate,
    consume_rate: ConsumeRate,
    capacity: Capacity,
    whitelist: Cidrs = None,
    allow_all: AllowAll = False,
    cluster: Annotated[str | None, typer.Option(help="Where; for operators. Default: where is room.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until it serves; else print what follows.")
    ] = True,
) -> Answer:
    """Create an instance and wait until it serves."""
    if not whitelist and not allow_all:
        raise usage("say who may connect: --whitelist CIDR (repeatable) or --allow-all")
    body: dict[str, object] = {
        "name": name,
        "produce_rate_bytes_per_s": produce_rate,
        "consume_rate_bytes_per_s": consume_rate,
        "capacity_bytes": capacity,
        "whitelist": whitelist or [],
        "allow_all": allow_all,
    }
    body |= chosen | ({} if cluster is None else {"cluster": cluster})
    operation = console.begin("instances", body)
    instance = console.follow(operation) if wait else console.get(f"instances/{operation['instance_id']}")
    return _answer(instance)


@app.command("list")
def list_instances(
    console: TenantConsole,
    operators: OperatorConsole,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Those that wait for their purge, and until when.")
    ] = False,
    absent: Annotated[
        bool, typer.Option("--absent", help="Those that brokers hold and the console does not know.")
    ] = False,
) -> Answer:
    """List instances."""
    if absent:
        return absent_instances(operators)
    if deleted:
        return deleted_instances(console)
    items = console.all_items("instances")
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
    return in_table(
        items, columns, map(_row, items), empty="No instances. Create one: portico instance create"
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
def show(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Show one instance."""
    return _answer(console.get(instance_path(instance)))


@app.command()
def clients(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Show what clients tell of themselves: versions, latency, retries, lag."""
    listed = console.get(instance_path(instance, "clients"), limit=500)
    off = "Clients are not asked: `portico instance resize --client-metrics`."
    nobody = "No client has told anything yet: those that do push every minute."
    columns = [
        "CLIENT",
        "SOFTWARE",
        "ADDRESS",
        "GROUP",
        "STATE",
        "AGE",
        "LATENCY",
        "THROTTLED",
        "RETRIES",
        "LAG",
    ]
    rows = (_client(one, one["shown"], one["age_ms"]) for one in listed["items"])
    return in_table(listed["items"], columns, rows, empty=nobody if listed["enabled"] else off)


@app.command()
def connections(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Show who is connected and what each carries, as gateways count it."""
    told = console.get(instance_path(instance, "connections"))
    items = [*told["items"], *([] if told["others"] is None else [told["others"]])]
    columns = ["ADDRESS", "CLIENT", "USER", "SOFTWARE", "OPEN", "ENDED", "IN", "OUT"]
    nobody = "Nobody is connected, or gateways have not counted yet: they do every few seconds."
    return in_table(told, columns, map(_connected, items), empty=nobody)


class _Connected(TypedDict):
    address: str
    client_id: str
    user: str
    software: str
    connections: int
    ended_per_s: float
    in_bytes_per_s: int
    out_bytes_per_s: int


def _connected(one: _Connected) -> list[object]:
    return [
        one["address"] or "(all others)",
        one["client_id"] or "-",
        one["user"] or "-",
        one["software"] or "-",
        one["connections"],
        f"{one['ended_per_s']:g}/s",
        format_bytes(one["in_bytes_per_s"], rate=True),
        format_bytes(one["out_bytes_per_s"], rate=True),
    ]


def _client(item: Mapping[str, object], figures: Mapping[str, float | None], age_ms: int) -> list[object]:
    latency_ms = figures["request_latency_avg_ms"]
    return [
        item["client_id"] or item["client_instance_id"],
        f"{item['software_name']} {item['software_version']}",
        item["address"],
        item["group_id"] or "-",
        item["state"],
        f"{age_ms // 1000} s",
        _ms(figures["fetch_latency_avg_ms"] if latency_ms is None else latency_ms),
        _ms(figures["throttle_time_avg_ms"]),
        _number(figures["retries"]),
        _number(figures["lag_records_max"]),
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


@app.command()
def resize(
    console: TenantConsole,
    chosen: Choices,
    instance: InstanceArgument,
    produce_rate: OptionalRate = None,
    consume_rate: OptionalRate = None,
    capacity: OptionalSize = None,
) -> Answer:
    """Change what an instance bought, up or down; clients stay connected."""
    sizes = {
        "produce_rate_bytes_per_s": produce_rate,
        "consume_rate_bytes_per_s": consume_rate,
        "capacity_bytes": capacity,
    }
    body = {field: value for field, value in sizes.items() if value is not None}
    body |= chosen
    if not body:
        raise usage("nothing to change: name at least one of --produce-rate, --consume-rate, --capacity, ...")
    return _answer(console.call("PATCH", instance_path(instance), body))


@app.command()
def suspend(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Cut all clients and refuse new ones; data stays."""
    return _answer(console.call("POST", instance_path(instance, "suspend")))


@app.command()
def resume(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Admit clients again."""
    resumed = console.call("POST", instance_path(instance, "resume"))
    return _answer(console.wait_until_serving(resumed["id"]))


@app.command()
def delete(console: TenantConsole, instance: InstanceArgument, yes: Yes = False) -> Answer:
    """Delete an instance. Its data is kept for a grace (7 days by default), then purged: see `undelete`."""
    found = console.get(instance_path(instance))
    confirm(f"Instance {found['name']} ({found['id']}): all its clients are disconnected.", yes=yes)
    gone = console.call("DELETE", instance_path(found["id"]))
    return in_facts(
        {
            "id": found["id"],
            "name": found["name"],
            "deleted": True,
            "purge_after": gone["deletion"]["purge_after"],
        },
        [
            ("deleted", f"{found['name']} ({found['id']})"),
            ("kept until", gone["deletion"]["purge_after"]),
            ("take it back", f"portico instance undelete {found['id']}"),
        ],
    )


def _addresses(endpoints: list[dict[str, str | None]]) -> str:
    if [one["security_protocol"] for one in endpoints] == [SecurityProtocol.PLAIN]:
        return str(endpoints[0]["bootstrap_servers"])
    return ", ".join(f"{one['bootstrap_servers']} ({one['security_protocol']})" for one in endpoints)


def _names(endpoints: list[dict[str, str | None]]) -> str:
    found = ((one["bootstrap_servers_by_name"], one["security_protocol"]) for one in endpoints)
    return ", ".join(f"{name} ({protocol})" for name, protocol in found if name is not None)


def _request_time(item: Any) -> str:
    derived = " (goes with the rates)" if item["request_percent_derived"] else ""
    return f"{item['request_percent']} % of a core{derived}"


def _stored(item: Any) -> str:
    return "unknown" if item["stored_bytes"] is None else format_bytes(item["stored_bytes"])


def _answer(item: Any) -> Answer:
    reason = f": {item['state_reason']}" if item.get("state_reason") else ""
    admits = "every address" if item["allow_all"] else ", ".join(item["whitelist"]) or "nobody"
    limits = item["limits"]
    return in_facts(
        item,
        [
            ("id", item["id"]),
            ("name", item["name"]),
            ("tenant", item["tenant"]),
            ("state", item["state"] + reason),
            *([("cannot serve", item["cluster_trouble"])] if item["cluster_trouble"] else []),
            ("bootstrap servers", _addresses(item["endpoints"])),
            *([("by name", names)] if (names := _names(item["endpoints"])) else []),
            ("produce rate", format_bytes(item["produce_rate_bytes_per_s"], rate=True)),
            ("consume rate", format_bytes(item["consume_rate_bytes_per_s"], rate=True)),
            ("request time", _request_time(item)),
            ("capacity", format_bytes(item["capacity_bytes"])),
            (
                "stored",
                _stored(item) + (" - full, producers blocked" if item["blocked"] else ""),
            ),
            ("partitions", f"{item['partitions'] or 0} of {limits['partitions_max']}"),
            ("partitions of a new topic", limits["partitions_default"]),
            ("connections", f"{item['connections']} of {limits['connections_max']}"),
            ("partitions created and deleted", f"{limits['controller_mutation_rate_max']}/s"),
            ("admits", admits),
            ("when full", item["full_behaviour"]),
            ("auto-create topics", "yes" if item["auto_create_topics"] else "no"),
            ("clients before Kafka 0.11", "served" if item["legacy_clients"] else "refused"),
            ("clients' own metrics", "asked for" if item["client_metrics"] else "not asked for"),
        ],
    )


@app.command()
def move(
    console: OperatorConsole,
    instance: Annotated[str | None, InstanceOptional] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="CLUSTER", help="Begin to move it there.")] = None,
    status: Annotated[bool, typer.Option("--status", help="How far it is. Without ID: of all.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stay, as long as it was not switched.")] = False,
    purge_old: Annotated[
        bool, typer.Option("--purge-old", help="Remove the copy that is left where it was.")
    ] = False,
    fill_gaps: Annotated[
        bool,
        typer.Option(
            "--fill-gaps",
            help="To an Apache Kafka: fill offsets without a record (compaction, transactions). Records from "
            "before are then not found by time, and retention counts their age from the move.",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is switched.")] = True,
    yes: Yes = False,
) -> Answer:
    """Move an instance to another cluster behind its vports; for operators."""
    return moved(
        console,
        instance,
        to,
        fill_gaps=fill_gaps,
        status=status,
        cancel=cancel,
        purge_old=purge_old,
        wait=wait,
        yes=yes,
    )


add_commands(app, _answer)
