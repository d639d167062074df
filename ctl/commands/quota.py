"""`portico quota`: what the master allots to each broker, and why."""

import time
from typing import Annotated, Any

import typer

from contracts.units import format_bytes
from ctl.commands.quota_simulate import simulate
from ctl.console_client import Console, instance_path
from ctl.options import DEFAULT_DATA_DIR, AsJson, DataDir, InstanceArgument, Tenant
from ctl.output import print_facts, print_json, print_table, terminal

app = typer.Typer(no_args_is_help=True)
app.command("simulate")(simulate)


@app.command()
def show(
    instance: InstanceArgument,
    seconds: Annotated[int, typer.Option(min=0, max=3600, help="History to include in --json.")] = 0,
    as_json: AsJson = False,
    tenant: Tenant = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show the last decision: r, F, P and q of each broker."""
    with Console.of(data_dir, tenant) as console:
        view = console.get(instance_path(instance, "quota"), seconds=seconds)
    if as_json:
        print_json(view)
    else:
        _show(view)


@app.command()
def watch(instance: InstanceArgument, tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show the decision again every second, until Ctrl-C."""
    with Console.of(data_dir, tenant) as console:
        while True:
            view = console.get(instance_path(instance, "quota"), seconds=0)
            terminal().clear()
            _show(view)
            time.sleep(1)


@app.command("list")
def list_quotas(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """All instances (operators)."""
    with Console.of(data_dir) as console:
        overview = console.get("quota")
    if as_json:
        print_json(overview)
        return
    rows = (
        [
            view["instance_id"],
            *(_of(view[direction]) for direction in ("produce", "consume")),
            f"{format_bytes(view['stored_bytes'])} of {format_bytes(view['capacity_bytes'])}",
            "full" if view["blocked"] else "",
        ]
        for view in overview["instances"]
    )
    print_table(["INSTANCE", "PRODUCE", "CONSUME", "STORED", ""], rows, empty="No instances.")


def _of(direction: Any) -> str:
    now = format_bytes(direction["rate_per_s"], rate=True)
    return f"{now} of {format_bytes(direction['purchased_per_s'], rate=True)}"


def _show(view: Any) -> None:
    stored = f"{format_bytes(view['stored_bytes'])} of {format_bytes(view['capacity_bytes'])}"
    print_facts(
        [("policy", view["policy"]), ("stored", stored + (" - producers blocked" if view["blocked"] else ""))]
    )
    for direction in ("produce", "consume"):
        decision = view[direction]
        print_facts([("", ""), (direction, _of(decision)), ("why", decision["explanation"])])
        rows = (
            [broker["node_id"], *_broker(broker[direction]), _lease(broker)] for broker in view["brokers"]
        )
        columns = ["BROKER", "r", "F", "P", "q", "THROTTLED ms/s", "LEASE"]
        print_table(columns, rows, empty="no broker has reported yet")


def _broker(side: Any) -> list[str]:
    names = ("rate", "share", "proportion", "allocated")
    rates = [format_bytes(side[f"{name}_per_s"], rate=True) for name in names]
    return [*rates, str(side["throttled_ms_per_s"])]


def _lease(broker: Any) -> str:
    if broker["silent"]:
        return f"silent for {broker['report_age_ms'] / 1000:.0f} s"
    return f"epoch {broker['lease_epoch']}" if broker["on_lease"] else "none, fell back to F"
