"""`portico cluster topic`: all topics of the cluster, by their physical names (operators)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from contracts.names import owner_of
from ctl.cluster_client import Cluster, ClusterReach, with_cluster
from ctl.command import Commands
from ctl.commands.topic import Configs, OptionalPartitions, Partitions, Resets, changes_of, pairs
from ctl.confirm import Yes, confirm
from ctl.output import Answer, in_table, print_facts, print_table
from ctl.tools import topic_admin
from ctl.tools.partitions import PartitionRow, matching, rows_of

app = Commands()

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The physical name, like INSTANCE.TOPIC.")]


@app.command("list")
def list_topics(reach: ClusterReach) -> Answer:
    """List topics."""
    topics: dict[str, list[PartitionRow]] = {}
    for row in with_cluster(reach, _all_rows):
        topics.setdefault(row.topic, []).append(row)
    items = [
        {
            "topic": name,
            "instance": owner_of(name),
            "partitions": len(parts),
            "replication_factor": len(parts[0].replicas),
            "under_replicated": sum(part.is_under_replicated for part in parts),
            "unavailable": sum(part.is_unavailable for part in parts),
        }
        for name, parts in topics.items()
    ]
    columns = ["TOPIC", "INSTANCE", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "UNAVAILABLE"]
    lines = (["-" if value is None else value for value in item.values()] for item in items)
    return in_table(items, columns, lines, empty="No topics.")


async def _all_rows(cluster: Cluster) -> list[PartitionRow]:
    return rows_of(await cluster.metadata())


@app.command()
def create(
    reach: ClusterReach,
    name: Name,
    partitions: Partitions = 1,
    config: Configs = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="Default: the cluster's.")] = None,
    replica_assignment: Annotated[
        str | None, typer.Option(metavar="1:2,2:3", help="Replicas of each partition.")
    ] = None,
) -> Answer:
    """Create a topic."""
    configs = pairs(config)
    replicas = None if replica_assignment is None else topic_admin.parse_assignment(replica_assignment)

    async def work(cluster: Cluster) -> list[PartitionRow]:
        await topic_admin.create(
            cluster,
            name,
            partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            assignment=replicas,
            configs=configs,
        )
        return rows_of(await cluster.metadata([name]))

    return _answer(with_cluster(reach, work))


@app.command()
def describe(
    reach: ClusterReach,
    pattern: Annotated[
        str | None, typer.Argument(metavar="TOPIC|REGEX", help="Topics whose physical name matches.")
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas out of sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only partitions that refuse acks=all.")
    ] = False,
) -> Answer:
    """Show partitions of all topics, of one, or of those a REGEX matches; configs of a single one."""

    async def work(cluster: Cluster) -> tuple[list[PartitionRow], dict[str, dict[str, Any]]]:
        rows = list(matching(await _all_rows(cluster), pattern))
        return rows, await topic_admin.configs_of(cluster, sorted({row.topic for row in rows}))

    rows, configs = with_cluster(reach, work)
    filters: list[Callable[[PartitionRow], bool]] = []
    if under_replicated:
        filters.append(lambda row: row.is_under_replicated)
    if unavailable:
        filters.append(lambda row: row.is_unavailable)
    if under_min_isr:
        filters.append(
            lambda row: len(row.isr) < topic_admin.min_isr(configs.get(row.topic, {}), len(row.replicas))
        )
    if filters:
        chosen = [row for row in rows if any(wanted(row) for wanted in filters)]
        return _answer(chosen, empty="No such partitions.")
    own = {
        topic: {name: value for name, (value, is_own) in found.items() if is_own}
        for topic, found in configs.items()
    }
    return _answer(rows, own, empty="No topics.")


@app.command()
def alter(
    reach: ClusterReach,
    name: Name,
    partitions: OptionalPartitions = None,
    config: Configs = None,
    reset: Resets = None,
) -> Answer:
    """Change configs or add partitions."""
    changes = changes_of(partitions, config, reset)

    async def work(cluster: Cluster) -> list[PartitionRow]:
        if changes:
            await topic_admin.alter_configs(cluster, topic_admin.TOPIC, name, changes)
        if partitions is not None:
            await topic_admin.add_partitions(cluster, name, partitions)
        return rows_of(await cluster.metadata([name]))

    return _answer(with_cluster(reach, work))


@app.command()
def delete(reach: ClusterReach, name: Name, yes: Yes = False) -> None:
    """Delete a topic and its data, or say that the deletion is only recorded."""
    confirm(f"Topic {name} of the cluster and all its records go for good.", yes=yes)

    async def work(cluster: Cluster) -> bool:
        return await topic_admin.delete(cluster, name)

    if with_cluster(reach, work):
        print_facts([("deleted", name)])
    else:
        recorded = f"{name} - not carried out while delete.topic.enable is false"
        print_facts([("recorded for deletion", recorded)])


def _answer(
    rows: Sequence[PartitionRow],
    configs: Mapping[str, Mapping[str, str | None]] | None = None,
    *,
    empty: str = "No partitions.",
) -> Answer:
    document = {
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "leader": row.leader if row.leader >= 0 else None,
                "replicas": row.replicas,
                "isr": row.isr,
                "offline_replicas": row.offline,
            }
            for row in rows
        ]
    }

    def show() -> None:
        if configs is not None and len(configs) == 1:
            ((topic, overrides),) = configs.items()
            print_facts([("topic", topic), ("instance", owner_of(topic) or "-"), *overrides.items()])
        columns = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "OFFLINE"]
        lines = (
            [
                row.topic,
                row.partition,
                row.leader if row.leader >= 0 else "none",
                *(", ".join(map(str, brokers)) or "-" for brokers in (row.replicas, row.isr, row.offline)),
            ]
            for row in rows
        )
        print_table(columns, lines, empty=empty)

    return Answer(document | ({"configs": configs} if configs else {}), show)
