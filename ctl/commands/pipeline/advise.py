"""`portico pipeline advise`: sizes that fit, days to full, forecasts, and moves that even traffic out."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
import typer

from contracts.advice import Action, AdviceRow, Urgency
from contracts.units import format_bytes
from ctl.cluster_client import ClusterReach
from ctl.options import Tenant
from ctl.output import Answer, in_table, print_table, terminal
from ctl.pipeline.advising import Given, advise_into
from ctl.pipeline.run import TenantJob

_HISTORIES: Final = 200
"""Of each kind."""
_ORDER: Final = {urgency: position for position, urgency in enumerate(Urgency)}


def advise(
    start_job: TenantJob,
    reach: ClusterReach,
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this instance, by id or unique name.")
    ] = None,
    sample_s: Annotated[
        float,
        typer.Option(
            min=0, max=600, help="Where moves are considered: seconds to watch which partitions grow."
        ),
    ] = 5.0,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Only say how wrong days to full are on invented histories.")
    ] = False,
    tenant: Tenant = None,
) -> Answer:
    """Advise sizes and partition moves from the usage that `portico pipeline meter run` gathered (operators).

    Writes today's rows of the tables that the console's pages show, in place of those of an earlier run.
    """
    if backtest:
        return _backtested()
    with start_job("advise", instance or "all instances") as run:
        given = advise_into(run, reach, tenant, instance, sample_s)
    return Answer(_document(given, details=instance is not None), lambda: show(given))


def _backtested() -> Answer:
    from pipeline.advice.backtest import backtest

    found = backtest(_HISTORIES)
    rows = (
        [
            each.kind,
            each.histories,
            *("-" if share is None else f"{share:.0%}" for share in (each.median, each.p90)),
            *(
                f"{count} of {of}" if of else "-"
                for count, of in ((each.unsaid, each.fill), (each.false_alarms, each.never))
            ),
        ]
        for each in found
    )
    columns = ["HISTORY", "HISTORIES", "MEDIAN ERROR", "90 % BELOW", "NOT SAID", "FALSE ALARMS"]
    return in_table([each._asdict() for each in found], columns, rows, empty="")


def show(given: Given | None) -> None:
    """For people."""
    if given is None:
        terminal().print("There is no instance to advise on: create one with `portico instance create`.")
        return
    _show_sizes(given.advised.advice, given.names)
    _show_moves(given)


def _document(given: Given | None, *, details: bool) -> dict[str, object]:
    if given is None:
        return {"advice": [], "moves": [], "plans": {}}
    advised = given.advised
    document: dict[str, object] = {
        "advice": advised.advice,
        "moves": advised.moves,
        "plans": {instance_id: str(path) for instance_id, path in given.plans.items()},
    }
    if details:
        document |= {"skew": advised.skew.to_pylist(), "forecast": advised.forecast.to_pylist()}
    plain: dict[str, object] = msgspec.to_builtins(document)
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
