"""`portico txn`: transactions of the whole cluster, and ending what hangs."""

import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from ctl.cluster_client import Cluster, ClusterReach, with_cluster
from ctl.command import Commands
from ctl.errors import CommandError
from ctl.output import Answer, in_facts, in_table, print_table
from ctl.tools import transactions
from ctl.tools.partitions import PartitionRow, rows_of
from ctl.tools.transactions import Described, Hanging, Listed, OpenTransaction

app = Commands()

_MINUTE_MS: Final = 60_000
Topic = Annotated[str, typer.Option(help="The topic's physical name.")]
TransactionId = Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID", help="The physical name.")]


@app.command("list")
def list_transactions(
    reach: ClusterReach,
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state, such as Ongoing; repeat for several.")
    ] = None,
) -> Answer:
    """Every transactional id, its state and its coordinator."""

    async def work(cluster: Cluster) -> list[Listed]:
        return await transactions.list_transactions(cluster, state or ())

    found = with_cluster(reach, work)
    columns = ["TRANSACTIONAL ID", "PRODUCER ID", "STATE", "COORDINATOR"]
    return in_table([each._asdict() for each in found], columns, found, empty="No transactional id is known.")


@app.command("describe")
def describe(reach: ClusterReach, transactional_id: TransactionId) -> Answer:
    """One transactional id: its producer, and the partitions of its transaction."""

    async def work(cluster: Cluster) -> Described:
        return await transactions.describe_transaction(cluster, transactional_id)

    found = with_cluster(reach, work)
    partitions = [f"{topic}-{partition}" for topic, partition in sorted(found.partitions)]
    started = "-" if found.start_ms < 0 else _time(found.start_ms)
    return in_facts(
        found._asdict() | {"partitions": partitions},
        [
            ("transactional id", found.transactional_id),
            ("coordinator", f"broker {found.coordinator_id}"),
            ("producer", f"{found.producer_id} epoch {found.producer_epoch}"),
            ("state", found.state),
            ("timeout", f"{found.timeout_ms} ms"),
            ("open since", started),
            ("partitions", ", ".join(partitions) or "-"),
        ],
    )


@app.command("find-hanging")
def find_hanging(
    reach: ClusterReach,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; repeat for several.")] = None,
    broker: Annotated[int | None, typer.Option(help="Only partitions that this broker leads.")] = None,
    max_timeout_minutes: Annotated[
        int, typer.Option("--max-transaction-timeout", min=1, help="Greatest timeout, in minutes.")
    ] = 15,
) -> Answer:
    """Transactions that are open on a partition and that no coordinator will end. Exit code 1 for any."""

    async def work(cluster: Cluster) -> list[Hanging]:
        rows = rows_of(await cluster.metadata(topic or None))
        asked = [row for row in rows if broker is None or row.leader == broker]
        now_ms = int(time.time() * 1000)
        limit_ms = max_timeout_minutes * _MINUTE_MS
        return await transactions.find_hanging(cluster, asked, now_ms=now_ms, timeout_max_ms=limit_ms)

    found = with_cluster(reach, work)
    return Answer([_as_dict(each) for each in found], lambda: _print_hanging(found), 1 if found else 0)


def _as_dict(each: Hanging) -> dict[str, object]:
    return {
        **each.transaction._asdict(),
        "transactional_id": each.transactional_id,
        "reason": each.reason,
    }


def _print_hanging(found: Sequence[Hanging]) -> None:
    columns = ["TOPIC", "PARTITION", "START OFFSET", "PRODUCER ID", "EPOCH", "LAST WRITTEN", "WHY"]
    rows = (
        [
            each.topic,
            each.partition,
            each.start_offset,
            each.producer_id,
            each.producer_epoch,
            _time(each.last_timestamp_ms),
            reason,
        ]
        for each, _, reason in found
    )
    print_table(columns, rows, empty="No transaction hangs.")


@app.command("abort")
def abort(
    reach: ClusterReach,
    topic: Topic,
    partition: Annotated[int, typer.Option(min=0, help="The partition.")],
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, help="Where the transaction began, as find-hanging shows.")
    ],
) -> None:
    """End a hanging transaction on one partition by an abort marker. Its records there are never read."""

    async def work(cluster: Cluster) -> OpenTransaction:
        row = _row(rows_of(await cluster.metadata([topic])), topic, partition)
        return await transactions.abort(cluster, row, start_offset)

    ended = with_cluster(reach, work)
    print(f"aborted: the transaction of producer {ended.producer_id} on {topic}-{partition}")


def _row(rows: Sequence[PartitionRow], topic: str, partition: int) -> PartitionRow:
    for row in rows:
        if row.partition == partition:
            if row.leader < 0:
                raise CommandError(f"{topic}-{partition} has no leader now")
            return row
    raise CommandError(f"there is no partition {topic}-{partition}")


def _time(epoch_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch_ms / 1000))
