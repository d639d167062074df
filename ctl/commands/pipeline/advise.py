"""`portico pipeline advise`: sizes that fit, days to full, forecasts, and moves that even traffic out."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

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
    with job_run("advise", instance or "all instances", data_dir, tenant) as run:
        given = advise_into(run, Reach(data_dir, bootstrap, secret_file), tenant, instance, sample_s)
    if as_json:
        print_json(_document(given, details=instance is not None))
    else:
        show(given)


class Given(NamedTuple):
    """What a run advised."""

    advised: "Advised"
    names: Mapping[str, str]
    """Of instances, by id."""
    plans: Mapping[str, Path]
    """Files with moves, by instance id."""


def advise_into(
    run: JobRun, reach: Reach, tenant: str | None = None, instance: str | None = None, sample_s: float = 5.0
) -> Given:
    """Advise on all instances, those of a tenant, or one. Raises: CommandError, PipelineError."""
    from pipeline.advice.job import advise as advise_job

    found = _instances(run, reach.data_dir, tenant, instance)
    advised = advise_job(
        run.spark,
        run.layout,
        run.progress,
        [_bought(one) for one in found],
        now_ms=epoch_ms(),
        places=lambda instance_ids: _places(reach, instance_ids, sample_s),
        only_one=instance is not None,
    )
    names = {str(one["id"]): str(one["name"]) for one in found}
    return Given(advised, names, write_plans(run.layout.reports / "moves", advised.moves))


def show(given: Given) -> None:
    """For people."""
    _show_sizes(given.advised.advice, given.names)
    _show_moves(given)


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


def _document(given: Given, *, details: bool) -> dict[str, Any]:
    from pipeline.advice.job import forecast_rows, skew_rows

    advised = given.advised
    document: dict[str, Any] = {
        "advice": advised.advice,
        "moves": advised.moves,
        "plans": {instance_id: str(path) for instance_id, path in given.plans.items()},
    }
    if details:
        document |= {"skew": skew_rows(advised.skew), "forecast": forecast_rows(advised.forecast)}
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain


def _show_sizes(advice: Iterable[AdviceRow], names: Mapping[str, str]) -> None:
    rows = sorted(advice, key=lambda row: (_ORDER[row.urgency], names[row.instance_id]))
    print_table(
        ["INSTANCE", "URGENCY", "PRODUCE", "CONSUME", "CAPACITY", "FULL IN", "USABLE"],
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
            ]
            for row in rows
        ),
        empty="No advice.",
    )
    for row in rows:
        terminal().print(f"\n{names[row.instance_id]}: {row.reason}")


def _size(now: int, recommended: int, action: Action, *, rate: bool = True) -> str:
    if action is Action.KEEP:
        return f"{format_bytes(now, rate=rate)}, keep"
    return f"{format_bytes(now, rate=rate)} -> {format_bytes(recommended, rate=rate)}"


def _shares(row: AdviceRow) -> str:
    shares = (row.produce_usable_share, row.consume_usable_share)
    return " / ".join("-" if share is None else f"{share:.2f}" for share in shares)


def _show_moves(given: Given) -> None:
    for row in given.advised.advice:
        if not row.moves_reason:
            continue
        terminal().print(f"\n{given.names[row.instance_id]}: {row.moves_reason}")
        mine = [move for move in given.advised.moves if move.instance_id == row.instance_id]
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
        plan = given.plans[row.instance_id]
        print(f"  portico reassign execute {plan}   # and, until it says complete:")
        print(f"  portico reassign verify {plan}")
        print(f"  portico leader elect-preferred --file {plan}")
