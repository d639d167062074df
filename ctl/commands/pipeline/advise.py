"""`portico pipeline advise`: sizes that fit, days to full, forecasts, and moves that even traffic out."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from contracts.advice import Action, AdviceRow, MoveRow, Urgency
from contracts.units import format_bytes
from ctl.cluster_client import Bootstrap, Cluster, Reach, SecretFile, with_cluster
from ctl.console_client import Console
from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, Tenant
from ctl.output import print_json, print_table, terminal
from ctl.pipeline.run import JobRun, job_run, say
from ctl.tools.placements import placements
from ctl.tools.reassignment_plan import encode
from runtime.clock import epoch_ms
from runtime.process import write_json

if TYPE_CHECKING:
    from pipeline.advice.job import Advised
    from pipeline.advice.judgement import Bought
    from pipeline.advice.skewed import Placement

_ORDER: Final = {urgency: position for position, urgency in enumerate(Urgency)}


def register(app: typer.Typer) -> None:
    """Put the command into `portico pipeline`."""
    app.command("advise")(advise)


def advise(
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this instance, by id or unique name.")
    ] = None,
    sample_s: Annotated[
        float,
        typer.Option(
            min=0, max=600, help="Where moves are considered: seconds to watch which partitions grow."
        ),
    ] = 5.0,
    tenant: Tenant = None,
    bootstrap: Bootstrap = None,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Advise sizes and partition moves from the usage that `portico pipeline meter` has gathered (operators).

    Writes today's rows of the tables that the console's pages show, in place of those of an earlier run.
    """
    from pipeline.advice.job import advise as advise_job

    with job_run("advise", instance or "all instances", data_dir, tenant) as run:
        found = _instances(run, data_dir, tenant, instance)
        reach = Reach(data_dir, bootstrap, secret_file)

        def places(instance_ids: Sequence[str]) -> "Mapping[str, Placement]":
            return _places(reach, instance_ids, sample_s)

        advised = advise_job(
            run.spark,
            run.layout,
            run.progress,
            [_bought(one) for one in found],
            now_ms=epoch_ms(),
            places=places,
            only_one=instance is not None,
        )
        plans = write_plans(run.layout.reports / "moves", advised.moves)
    names = {str(one["id"]): str(one["name"]) for one in found}
    if as_json:
        print_json(_document(advised, plans, details=instance is not None))
    else:
        _show(advised.advice, names)
        _show_moves(advised, plans, names)


def _instances(run: JobRun, data_dir: Path, tenant: str | None, instance: str | None) -> list[Any]:
    if instance is not None:
        return [run.instance(instance)]
    with Console.of(data_dir, tenant or "*") as console:
        found = console.all_items("instances")
    if not found:
        raise CommandError("there is no instance to advise on: create one with `portico instance create`")
    return found


def _bought(view: Any) -> "Bought":
    from pipeline.advice.judgement import Bought

    return Bought(
        str(view["id"]),
        int(view["produce_rate_bytes_per_s"]),
        int(view["consume_rate_bytes_per_s"]),
        int(view["capacity_bytes"]),
    )


def _places(reach: Reach, instance_ids: Sequence[str], sample_s: float) -> "Mapping[str, Placement]":
    """Advice on sizes does not wait for a cluster that cannot be asked."""

    async def work(cluster: Cluster) -> "dict[str, Placement]":
        return await placements(cluster, instance_ids, sample_s)

    try:
        return with_cluster(reach, work)
    except CommandError as error:
        say(f"partition moves are not advised: {error.sentence}")
        return {}


def write_plans(folder: Path, moves: Iterable[MoveRow]) -> dict[str, Path]:
    """One plan per instance, as `portico reassign` reads it."""
    plans: dict[str, dict[tuple[str, int], tuple[int, ...]]] = {}
    for move in moves:
        plans.setdefault(move.instance_id, {})[move.topic, move.partition] = tuple(move.replicas)
    written = {}
    for instance_id, plan in plans.items():
        folder.mkdir(parents=True, exist_ok=True)
        written[instance_id] = folder / f"{instance_id}.json"
        write_json(written[instance_id], encode(plan))
    return written


def _document(advised: "Advised", plans: Mapping[str, Path], *, details: bool) -> dict[str, Any]:
    from pipeline.advice.job import forecast_rows, skew_rows

    document: dict[str, Any] = {
        "advice": advised.advice,
        "moves": advised.moves,
        "plans": {instance_id: str(path) for instance_id, path in plans.items()},
    }
    if details:
        document |= {"skew": skew_rows(advised.skew), "forecast": forecast_rows(advised.forecast)}
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain


def _show(advice: Iterable[AdviceRow], names: Mapping[str, str]) -> None:
    rows = sorted(advice, key=lambda row: (_ORDER[row.urgency], names[row.instance_id]))
    print_table(
        ["INSTANCE", "URGENCY", "PRODUCE", "CONSUME", "CAPACITY", "FULL IN", "USABLE", "WHY"],
        (
            [
                f"{names[row.instance_id]} ({row.instance_id})",
                row.urgency,
                _size(
                    row.produce_rate_bytes_per_s, row.recommended_produce_rate_bytes_per_s, row.produce_action
                ),
                _size(
                    row.consume_rate_bytes_per_s, row.recommended_consume_rate_bytes_per_s, row.consume_action
                ),
                _size(row.capacity_bytes, row.recommended_capacity_bytes, row.capacity_action, rate=False),
                "-" if row.days_to_full is None else f"{row.days_to_full:.1f} days",
                _shares(row),
                row.reason,
            ]
            for row in rows
        ),
        empty="No advice.",
    )


def _size(now: int, recommended: int, action: Action, *, rate: bool = True) -> str:
    if action is Action.KEEP:
        return f"{format_bytes(now, rate=rate)}, keep"
    return f"{format_bytes(now, rate=rate)} -> {format_bytes(recommended, rate=rate)}"


def _shares(row: AdviceRow) -> str:
    shares = (row.produce_usable_share, row.consume_usable_share)
    return " / ".join("-" if share is None else f"{share:.2f}" for share in shares)


def _show_moves(advised: "Advised", plans: Mapping[str, Path], names: Mapping[str, str]) -> None:
    for row in advised.advice:
        if not row.moves_reason:
            continue
        terminal().print(f"\n{names[row.instance_id]}: {row.moves_reason}")
        mine = [move for move in advised.moves if move.instance_id == row.instance_id]
        if not mine:
            continue
        print_table(
            ["TOPIC", "PARTITION", "FROM", "TO", "REPLICAS", "CARRIES", "TO COPY", "USABLE THEN"],
            (
                [
                    *(move.topic, move.partition, move.from_node_id, move.to_node_id),
                    ",".join(map(str, move.replicas)),
                    f"{move.load_share:.0%}",
                    "nothing" if move.is_leadership_only else format_bytes(move.moved_bytes),
                    f"{move.usable_share_after:.2f}",
                ]
                for move in mine
            ),
            empty="",
        )
        plan = plans[row.instance_id]
        print(f"  portico reassign execute {plan}   # and, until it says complete:")
        print(f"  portico reassign verify {plan}")
        print(f"  portico leader elect-preferred --file {plan}")
