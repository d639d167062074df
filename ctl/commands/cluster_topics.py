"""`portico topic ... --cluster`: all topics of the cluster, by their physical names, for operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contracts.names import owner_of
from ctl.cluster_client import Cluster, Reach, with_cluster
from ctl.output import print_facts, print_json, print_table
from ctl.tools import topic_admin
from ctl.tools.partitions import PartitionRow, matching, rows_of


def list_topics(reach: Reach, as_json: bool) -> None:
    """All topics."""
    rows = with_cluster(reach, _all_rows)
    topics: dict[str, list[PartitionRow]] = {}
    for row in rows:
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
    if as_json:
        print_json(items)
        return
    columns = ["TOPIC", "INSTANCE", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "UNAVAILABLE"]
    lines = (["-" if value is None else value for value in item.values()] for item in items)
    print_table(columns, lines, empty="No topics.")


async def _all_rows(cluster: Cluster) -> list[PartitionRow]:
    return rows_of(await cluster.metadata())


def create(
    reach: Reach,
    name: str,
    partitions: int,
    replication_factor: int | None,
    assignment: str | None,
    configs: Mapping[str, str],
    as_json: bool,
) -> None:
    """Create a topic and show it."""
    replicas = None if assignment is None else topic_admin.parse_assignment(assignment)

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

    _show(with_cluster(reach, work), as_json)


def alter(
    reach: Reach, name: str, partitions: int | None, changes: Mapping[str, str | None], as_json: bool
) -> None:
    """Change configs, add partitions, and show the topic."""

    async def work(cluster: Cluster) -> list[PartitionRow]:
        if changes:
            await topic_admin.alter_configs(cluster, topic_admin.TOPIC, name, changes)
        if partitions is not None:
            await topic_admin.add_partitions(cluster, name, partitions)
        return rows_of(await cluster.metadata([name]))

    _show(with_cluster(reach, work), as_json)


def delete(reach: Reach, name: str) -> None:
    """Delete a topic, or say that it is only recorded."""

    async def work(cluster: Cluster) -> bool:
        return await topic_admin.delete(cluster, name)

    if with_cluster(reach, work):
        print_facts([("deleted", name)])
    else:
        recorded = f"{name} - not carried out while delete.topic.enable is false"
        print_facts([("recorded for deletion", recorded)])


def describe(
    reach: Reach,
    pattern: str | None,
    *,
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    as_json: bool,
) -> None:
    """Partitions of topics, all or those in some trouble; configs of a single topic."""

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
    chosen = [row for row in rows if not filters or any(wanted(row) for wanted in filters)]
    own = {
        topic: {name: value for name, (value, is_own) in found.items() if is_own}
        for topic, found in configs.items()
    }
    if not filters and len(own) == 1 and not as_json:
        ((topic, overrides),) = own.items()
        print_facts([("topic", topic), ("instance", owner_of(topic) or "-"), *overrides.items()])
    empty = "No such partitions." if filters else "No topics."
    _show(chosen, as_json, own if not filters else {}, empty=empty)


def _show(
    rows: Sequence[PartitionRow],
    as_json: bool,
    configs: Mapping[str, Mapping[str, str | None]] | None = None,
    *,
    empty: str = "No partitions.",
) -> None:
    if as_json:
        partitions = [
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
        print_json({"partitions": partitions} | ({"configs": configs} if configs else {}))
        return
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
