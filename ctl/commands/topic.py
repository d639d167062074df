"""`portico topic`: topics of an instance, or with --cluster those of the whole cluster."""

from typing import Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.cluster_client import Bootstrap, Reach, SecretFile
from ctl.commands import cluster_topics
from ctl.console_client import Console, instance_path
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant
from ctl.output import print_facts, print_json, print_table

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Instance = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="An instance's id or unique name; left out with --cluster."),
]
TopicName = Annotated[str | None, typer.Argument(metavar="TOPIC")]
InCluster = Annotated[
    bool, typer.Option("--cluster", help="The whole cluster and physical names (operators), not an instance.")
]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Repeat for several.")
]


def _pairs(configs: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in configs or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise usage(f"--config '{text}' is not KEY=VALUE")
        pairs[key] = value
    return pairs


def _instance_and_topic(instance: str | None, name: str | None) -> tuple[str, str]:
    if instance is None or name is None:
        raise usage("name an instance and a topic, or --cluster and a topic's physical name")
    return instance, name


def _physical(instance: str | None, name: str | None) -> str:
    """With --cluster the topic is the only name."""
    if instance is None or name is not None:
        raise usage("with --cluster name the topic alone: its physical name, like INSTANCE.TOPIC")
    return instance


@app.command("list")
def list_topics(
    instance: Instance = None,
    in_cluster: InCluster = False,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List topics."""
    if in_cluster:
        if instance is not None:
            raise usage("name an instance or --cluster, not both")
        cluster_topics.list_topics(Reach(data_dir, bootstrap, secret_file), as_json)
        return
    if instance is None:
        raise usage("name an instance, or --cluster for all topics of the cluster")
    with Console.of(data_dir, tenant) as console:
        items = console.all_items(instance_path(instance, "topics"))
    if as_json:
        print_json(items)
        return
    rows = ([item["name"], item["partitions"], format_bytes(item["stored_bytes"] or 0)] for item in items)
    print_table(["TOPIC", "PARTITIONS", "STORED"], rows, empty="No topics.")


@app.command()
def create(
    instance: Instance = None,
    name: TopicName = None,
    partitions: Annotated[int, typer.Option(min=1)] = 1,
    config: Configs = None,
    in_cluster: InCluster = False,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="With --cluster.")] = None,
    replica_assignment: Annotated[
        str | None, typer.Option(metavar="1:2,2:3", help="With --cluster: replicas of each partition.")
    ] = None,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create a topic."""
    if in_cluster:
        cluster_topics.create(
            Reach(data_dir, bootstrap, secret_file),
            _physical(instance, name),
            partitions,
            replication_factor,
            replica_assignment,
            _pairs(config),
            as_json,
        )
        return
    if replication_factor is not None or replica_assignment is not None:
        raise usage("an instance's topics have the cluster's replication factor; use --cluster to choose")
    instance, name = _instance_and_topic(instance, name)
    body = {"name": name, "partitions": partitions, "configs": _pairs(config)}
    with Console.of(data_dir, tenant) as console:
        _show(console.call("POST", instance_path(instance, "topics"), body), as_json)


@app.command()
def describe(
    instance: Instance = None,
    name: TopicName = None,
    in_cluster: InCluster = False,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="With --cluster: only partitions with replicas out of sync."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="With --cluster: only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="With --cluster: only partitions that refuse acks=all.")
    ] = False,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show partitions and configs of a topic; with --cluster of all topics, or those a REGEX matches."""
    if in_cluster:
        if name is not None:
            raise usage("with --cluster name the topic alone, or a regular expression for several")
        cluster_topics.describe(
            Reach(data_dir, bootstrap, secret_file),
            instance,
            under_replicated=under_replicated,
            unavailable=unavailable,
            under_min_isr=under_min_isr,
            as_json=as_json,
        )
        return
    if under_replicated or unavailable or under_min_isr:
        raise usage("--under-replicated, --unavailable and --under-min-isr need --cluster")
    instance, name = _instance_and_topic(instance, name)
    with Console.of(data_dir, tenant) as console:
        _show(console.get(instance_path(instance, "topics", name)), as_json)


@app.command()
def alter(
    instance: Instance = None,
    name: TopicName = None,
    partitions: Annotated[int | None, typer.Option(min=1)] = None,
    config: Configs = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to the default.")
    ] = None,
    in_cluster: InCluster = False,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Change configs or add partitions."""
    changes = dict[str, str | None](_pairs(config)) | dict.fromkeys(reset or [])
    if not changes and partitions is None:
        raise usage("nothing to change: name --partitions, --config or --reset")
    if in_cluster:
        reach = Reach(data_dir, bootstrap, secret_file)
        cluster_topics.alter(reach, _physical(instance, name), partitions, changes, as_json)
        return
    instance, name = _instance_and_topic(instance, name)
    body: dict[str, Any] = {"configs": changes} if changes else {}
    if partitions is not None:
        body["partitions"] = partitions
    with Console.of(data_dir, tenant) as console:
        _show(console.call("PATCH", instance_path(instance, "topics", name), body), as_json)


@app.command()
def delete(
    instance: Instance = None,
    name: TopicName = None,
    in_cluster: InCluster = False,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a topic and its data."""
    if in_cluster:
        cluster_topics.delete(Reach(data_dir, bootstrap, secret_file), _physical(instance, name))
        return
    instance, name = _instance_and_topic(instance, name)
    with Console.of(data_dir, tenant) as console:
        console.call("DELETE", instance_path(instance, "topics", name))
    print_facts([("deleted", name)])


@app.command("delete-records")
def delete_records(
    instance: InstanceArgument,
    name: Name,
    before: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Repeat; without it all records go.")
    ] = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete the oldest records of a topic; their space is free at once."""
    body: dict[str, Any] = {}
    if before:
        body["partitions"] = [_cut(text) for text in before]
    with Console.of(data_dir, tenant) as console:
        result = console.call("POST", instance_path(instance, "topics", name, "delete-records"), body)
    if as_json:
        print_json(result)
    else:
        rows = (
            [item["partition"], item["error"] or item["log_start_offset"]] for item in result["partitions"]
        )
        print_table(["PARTITION", "LOG START OFFSET"], rows, empty="No partitions.")


def _cut(text: str) -> dict[str, int]:
    partition, _, offset = text.partition(":")
    try:
        return {"partition": int(partition), "before_offset": int(offset)}
    except ValueError:
        raise usage(f"--before '{text}' is not PARTITION:OFFSET") from None


def _show(topic: Any, as_json: bool) -> None:
    if as_json:
        print_json(topic)
        return
    chosen = [(config["name"], config["value"]) for config in topic["configs"] if not config["is_default"]]
    print_facts([("topic", topic["name"]), ("stored", format_bytes(topic["stored_bytes"] or 0)), *chosen])
    columns = ["PARTITION", "LEADER", "LOG START OFFSET", "HIGH WATERMARK", "STORED"]
    names = ("partition", "leader", "log_start_offset", "high_watermark")
    rows = (
        [
            *("-" if part[name] is None else part[name] for name in names),
            format_bytes(part["size_bytes"] or 0),
        ]
        for part in topic["partitions"]
    )
    print_table(columns, rows, empty="")
