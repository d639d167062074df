"""`portico replica`: whether the copies of partitions are alike."""

from typing import Annotated

import typer

from contracts.units import counted
from ctl.cluster_client import Cluster, ClusterReach, with_cluster
from ctl.command import Commands
from ctl.output import Answer, print_table, terminal
from ctl.tools.partitions import matching, rows_of
from ctl.tools.replica_verification import Verdict, verify
from ctl.tools.topic_admin import configs_of

app = Commands()


@app.command("verify")
def verify_replicas(
    reach: ClusterReach,
    topics: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only topics whose physical name matches.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List replicas without fault, too.")] = False,
) -> Answer:
    """Read every replica of every partition and compare them; exit code 1 when any differs or is missing."""

    async def work(cluster: Cluster) -> list[Verdict]:
        rows = list(matching(rows_of(await cluster.metadata()), topics))
        configs = await configs_of(cluster, sorted({row.topic for row in rows}))
        verdicts: list[Verdict] = []
        for row in rows:
            policy = configs[row.topic].get("cleanup.policy", ("", False))[0] or ""
            verdicts += await verify(cluster, row, compacted="compact" in policy)
        return verdicts

    verdicts = with_cluster(reach, work)
    faulty = [verdict for verdict in verdicts if verdict.fault is not None]
    document = [verdict._asdict() for verdict in verdicts]
    return Answer(document, lambda: _show(verdicts, len(faulty), every=every), 1 if faulty else 0)


def _show(verdicts: list[Verdict], faulty: int, *, every: bool) -> None:
    chosen = verdicts if every else [one for one in verdicts if one.fault or one.lag]
    columns = ["TOPIC", "PARTITION", "REPLICA", "IN SYNC", "HIGH WATERMARK", "LAG", "FINDING"]
    rows = (
        [
            one.topic,
            one.partition,
            one.replica,
            "yes" if one.in_sync else "no",
            *("-" if number is None else number for number in (one.high_watermark, one.lag)),
            one.fault or ("behind" if one.lag else "alike"),
        ]
        for one in chosen
    )
    print_table(columns, rows, empty="All replicas are alike.")
    partitions = len({(one.topic, one.partition) for one in verdicts})
    terminal().print(
        f"{counted(partitions, 'partition')}, {counted(len(verdicts), 'replica')} compared, "
        f"{faulty} with a fault"
    )
