"""`portico quota simulate`: what each policy makes of each scenario, on a virtual clock."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from ctl.errors import CommandError, usage
from ctl.output import print_table, terminal

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")]


def simulate(
    scenario: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first run; the same seed, the same table.")] = 1,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each, with seeds that follow.")] = 5,
    rounds: Annotated[int, typer.Option(min=30, max=10_000, help="Report periods of each run.")] = 60,
    json: Json = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw every scenario as SVG.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put the table between the marks of a document.")
    ] = None,
) -> None:
    """Compare the policies: the real master and traffic points on a virtual clock. Needs no stack."""
    from ctl.quota_simulation import plots as drawing
    from ctl.quota_simulation import table
    from ctl.quota_simulation.scenarios import SCENARIOS
    from master.quota.policies import POLICIES

    scenarios = _chosen("scenario", scenario, [each.name for each in SCENARIOS])
    policies = _chosen("policy", policy, [*POLICIES])
    with terminal().status("simulating") as status:
        lines = table.run_all(
            scenarios,
            policies,
            range(seed, seed + runs),
            rounds,
            lambda what: status.update(f"simulating {what}"),
        )
    print_table(table.COLUMNS, map(table.cells, lines), empty="nothing was simulated")
    titles = {each.name: each.title for each in SCENARIOS}
    for name in scenarios:
        terminal().print(f"{name}: {titles[name]}", soft_wrap=True)
    if json is not None:
        found = {"seed": seed, "runs": runs, "rounds": rounds, "results": [table.as_json(x) for x in lines]}
        json.write_text(json_text.dumps(found, indent=2) + "\n")
    if markdown is not None:
        try:
            markdown.write_text(table.replaced(markdown.read_text(), table.markdown(lines)))
        except ValueError as error:
            raise CommandError(f"{markdown} was left as it is: {error}") from error
    if plots is not None:
        if not drawing.is_possible():
            raise CommandError(f"there are no plots: {drawing.NEEDED} is not installed (extra `plots`)")
        drawing.draw(lines, plots)


def _chosen(what: str, asked: list[str] | None, known: list[str]) -> list[str]:
    for name in asked or []:
        if name not in known:
            raise usage(f"there is no {what} '{name}': choose from {', '.join(known)}")
    return list(dict.fromkeys(asked)) if asked else known
