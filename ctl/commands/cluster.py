"""`portico cluster`: what each cluster may sell (operators)."""

from typing import Annotated
from urllib.parse import quote

import typer

from ctl import ceilings
from ctl.commands.cluster_try import try_cluster
from ctl.console_client import Console
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir
from ctl.output import print_json

app = typer.Typer(no_args_is_help=True)
app.command("try")(try_cluster)


@app.command("show")
def show(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """What every cluster may sell, has sold, and has left."""
    with Console.of(data_dir) as console:
        items = console.get("clusters")["items"]
    if as_json:
        print_json(items)
        return
    for item in items:
        ceilings.show(item, as_json=False)


@app.command("set-limits")
def set_limits(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="As `cluster show` names it.")],
    instances: ceilings.InstancesOption = None,
    produce_rate: ceilings.ProduceRateOption = None,
    consume_rate: ceilings.ConsumeRateOption = None,
    capacity: ceilings.CapacityOption = None,
    partitions: ceilings.PartitionsOption = None,
    connections: ceilings.ConnectionsOption = None,
    faults: ceilings.FaultsOption = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set how much a cluster may sell; `default` undoes it. Instances keep what they have."""
    body = ceilings.change(
        instances=instances,
        produce_rate_bytes_per_s=produce_rate,
        consume_rate_bytes_per_s=consume_rate,
        capacity_bytes=capacity,
        partitions=partitions,
        connections=connections,
        faults=faults,
    )
    with Console.of(data_dir) as console:
        changed = console.call("PATCH", f"clusters/{quote(cluster, safe='')}/ceilings", body)
    ceilings.show(changed, as_json)
