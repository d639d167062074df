"""`portico leader`: who leads partitions."""

from pathlib import Path
from typing import Annotated

import typer

from ctl.cluster_client import Cluster, ClusterReach, with_cluster
from ctl.command import Commands
from ctl.errors import usage
from ctl.output import Answer, in_table
from ctl.tools.elections import Elected, TopicPartition, elect_preferred, partitions_of_file
from ctl.tools.partitions import rows_of

app = Commands()


@app.command("elect-preferred")
def elect(
    reach: ClusterReach,
    topic: Annotated[str | None, typer.Option(help="A topic's physical name; all of its partitions.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="With --topic: only these; repeat for several.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every partition of the cluster.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", help='JSON like {"partitions": [{"topic": "t", "partition": 0}]}.'),
    ] = None,
) -> Answer:
    """Make the first replica of partitions their leader again, where it is in sync."""
    if sum((topic is not None, every, file is not None)) != 1:
        raise usage("choose one of --topic NAME, --all and --file FILE")
    if partition and topic is None:
        raise usage("--partition needs --topic")
    named = None if file is None else partitions_of_file(file)

    async def work(cluster: Cluster) -> list[Elected]:
        chosen: list[TopicPartition] | None = named
        if topic is not None:
            rows = rows_of(await cluster.metadata([topic]))
            chosen = [(topic, row.partition) for row in rows if not partition or row.partition in partition]
            missing = set(partition or ()) - {row.partition for row in rows}
            if missing:
                raise usage(f"topic {topic} has no partition {min(missing)}")
        return await elect_preferred(cluster, chosen)

    results = with_cluster(reach, work)
    return in_table(
        [result._asdict() for result in results],
        ["TOPIC", "PARTITION", "OUTCOME"],
        ([result.topic, result.partition, result.outcome] for result in results),
        empty="Every partition is led by its first replica.",
        code=any(result.is_failure for result in results),
    )
