"""`portico reassign`: move partitions to other brokers, by Kafka's plans in JSON."""

import json
import random
from pathlib import Path
from typing import Annotated, Any

import typer

from ctl.cluster_client import Cluster, ClusterReach, with_cluster
from ctl.command import Commands
from ctl.errors import CommandError, usage
from ctl.options import parse_rate
from ctl.output import Answer, print_table
from ctl.tools import reassignment
from ctl.tools.partitions import matching, rows_of
from ctl.tools.reassignment_plan import Draw, Plan, decode, encode, faults, generate, topics_of
from runtime.process import write_json

app = Commands()

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan in JSON, as `generate` makes it.")]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None


def _broker_ids(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise usage(f"--brokers '{text}' is not like 4,5,6") from None


@app.command("generate")
def make_plan(
    reach: ClusterReach,
    brokers: Annotated[str, typer.Option(metavar="4,5,6", help="Who gets the replicas.")],
    topics: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Topics to move, by their physical names.")
    ] = None,
    topics_file: Annotated[
        Path | None, typer.Option(help='Kafka\'s file instead: {"topics": [{"topic": "t"}], "version": 1}.')
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Replicas of each; default: as many as now.")
    ] = None,
    rack_aware: Annotated[bool, typer.Option(help="Different racks where brokers have them.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write the plan to a file.")] = None,
) -> Answer:
    """Propose a plan that spreads topics over brokers; nothing is moved. Keep the current one to go back."""
    if (topics is None) == (topics_file is None):
        raise usage("choose one of --topics REGEX and --topics-file FILE")
    wanted = _broker_ids(brokers)
    named = None if topics_file is None else set(topics_of(_text(topics_file), str(topics_file)))

    async def work(cluster: Cluster) -> tuple[Plan, Plan]:
        metadata = await cluster.metadata()
        racks = {int(one.node_id): one.rack if rack_aware else None for one in metadata.brokers}
        strangers = [broker for broker in wanted if broker not in racks]
        if strangers:
            raise CommandError(f"broker {strangers[0]} is not registered: is it running?")
        every = rows_of(metadata)
        chosen = [row for row in matching(every, topics) if named is None or row.topic in named]
        missing = (named or set()) - {row.topic for row in chosen}
        if missing or not chosen:
            raise CommandError(f"there is no topic {min(missing) if missing else f'that matches {topics}'}")
        draws = (Draw(random.randrange(len(wanted)), random.randrange(len(wanted))) for _ in chosen)
        current = {(row.topic, row.partition): row.replicas for row in chosen}
        targets = {broker: racks[broker] for broker in wanted}
        return current, generate(chosen, targets, draws, replication_factor)

    current, proposed = with_cluster(reach, work)
    if out is not None:
        write_json(out, encode(proposed))
    also = f", also in {out}:" if out is not None else ":"
    texts = [
        "Current assignment, to go back:",
        json.dumps(encode(current)),
        f"\nProposed assignment{also}",
        json.dumps(encode(proposed)),
    ]
    document = {"current": encode(current), "proposed": encode(proposed)}
    return Answer(document, lambda: print("\n".join(texts)))


@app.command()
def execute(
    reach: ClusterReach,
    plan: PlanFile,
    throttle: Annotated[
        int | None,
        typer.Option(
            parser=parse_rate, metavar="RATE", help="What the moves may take of each broker, like 50MB/s."
        ),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Although other reassignments are under way.")
    ] = False,
) -> Answer:
    """Begin the moves of a plan; `verify` says when they have ended."""
    wanted = decode(_text(plan), str(plan))

    async def work(cluster: Cluster) -> tuple[Plan, list[reassignment.Outcome]]:
        rows = rows_of(await cluster.metadata())
        found = faults(wanted, rows, cluster.addresses)
        if found:
            raise CommandError(f"the plan cannot be carried out: {'; '.join(found[:5])}")
        if not additional and (moving := await reassignment.ongoing(cluster)):
            first = min(moving)
            raise CommandError(
                f"{len(moving)} reassignments are under way ({first[0]}-{first[1]} among them): wait, cancel "
                "them, or say --additional"
            )
        current = {key: row.replicas for row in rows if (key := (row.topic, row.partition)) in wanted}
        if throttle is not None:
            await reassignment.throttle(cluster, wanted, rows, throttle)
        return current, await reassignment.alter(cluster, dict(wanted))

    current, outcomes = with_cluster(reach, work)
    previous = encode(current)
    to_go_back = f"\nThe assignment before, to go back:\n{json.dumps(previous)}"
    return _answer(outcomes, "under way", {"previous": previous}, to_go_back)


@app.command()
def verify(
    reach: ClusterReach,
    plan: PlanFile,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="Leave limits when all is complete.")
    ] = False,
) -> Answer:
    """Say how far a plan is; exit code 1 until all of it is complete. Takes throttles off then."""
    wanted = decode(_text(plan), str(plan))

    async def work(cluster: Cluster) -> list[reassignment.Progress]:
        moving = await reassignment.ongoing(cluster)
        states = reassignment.progress(wanted, rows_of(await cluster.metadata()), moving)
        if not preserve_throttles and not moving and all(one.state == "complete" for one in states):
            await reassignment.unthrottle(cluster, wanted)
        return states

    states = with_cluster(reach, work)
    return Answer(
        [state._asdict() for state in states],
        lambda: print_table(["TOPIC", "PARTITION", "STATE", "DETAIL"], states, empty=""),
        0 if all(state.state == "complete" for state in states) else 1,
    )


@app.command()
def cancel(reach: ClusterReach, plan: PlanFile) -> Answer:
    """End the moves of a plan that have not ended; their partitions stay where they were."""
    wanted = decode(_text(plan), str(plan))

    async def work(cluster: Cluster) -> list[reassignment.Outcome]:
        moving = await reassignment.ongoing(cluster)
        outcomes = []
        if ours := {key: None for key in wanted if key in moving}:
            outcomes = await reassignment.alter(cluster, dict[Any, Any](ours))
        await reassignment.unthrottle(cluster, wanted)
        return outcomes

    outcomes = with_cluster(reach, work)
    return _answer(outcomes, "cancelled", {})


def _answer(
    outcomes: list[reassignment.Outcome], done: str, more: dict[str, object], to_go_back: str = ""
) -> Answer:
    def show() -> None:
        rows = ([one.topic, one.partition, one.error or done] for one in outcomes)
        empty = "None of the plan's partitions is being moved."
        print_table(["TOPIC", "PARTITION", "OUTCOME"], rows, empty=empty)
        if to_go_back:
            print(to_go_back)

    document = {"partitions": [outcome._asdict() for outcome in outcomes]} | more
    return Answer(document, show, 1 if any(outcome.error for outcome in outcomes) else 0)
