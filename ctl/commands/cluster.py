"""`portico cluster`: which there are, what each may sell, and all topics of this one (operators)."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl import ceilings
from ctl.command import Commands
from ctl.commands import cluster_registry, cluster_topics
from ctl.commands.cluster_try import try_cluster
from ctl.console_options import OperatorConsole
from ctl.output import Answer

app = Commands()
app.command("try")(try_cluster)
cluster_registry.add_commands(app)
app.add_typer(
    cluster_topics.app, name="topic", help="Topics of the whole cluster, by their physical names (operators)."
)


@app.command("show")
def show(console: OperatorConsole) -> Answer:
    """What every cluster may sell, has sold, and has left."""
    items = console.get("clusters")["items"]
    return Answer(items, lambda: [ceilings.answer(item).show() for item in items])


@app.command("set-limits")
def set_limits(
    console: OperatorConsole,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="As `cluster show` names it.")],
    wanted: ceilings.Wanted,
) -> Answer:
    """Set how much a cluster may sell; `default` undoes it. Instances keep what they have."""
    changed = console.call("PATCH", f"clusters/{quote(cluster, safe='')}/ceilings", wanted)
    return ceilings.answer(changed)
