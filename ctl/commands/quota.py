"""`portico quota`: what the master allots to each broker and gateway worker, and why."""

import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import typer

from contracts.units import format_bytes, format_cpu
from ctl.command import Commands
from ctl.commands.quota_simulate import simulate
from ctl.console_client import instance_path
from ctl.console_options import OperatorConsole, TenantConsole
from ctl.options import InstanceArgument
from ctl.output import Answer, in_table, print_facts, print_table, terminal

app = Commands()
app.command("simulate")(simulate)
_COLUMNS = ("r", "F", "P", "q", "THROTTLED ms/s", "LEASE")


@app.command()
def show(
    console: TenantConsole,
    instance: InstanceArgument,
    seconds: Annotated[int, typer.Option(min=0, max=3600, help="History to include in --json.")] = 0,
) -> Answer:
    """Show the last decision: r, F, P and q of each broker, and of each point that spends CPU time."""
    view = console.get(instance_path(instance, "quota"), seconds=seconds)
    return Answer(view, lambda: _show(view))


@app.command()
def why(console: TenantConsole, instance: InstanceArgument) -> Answer:
    """Show what held clients back in the last five minutes, and what another size would change."""
    found = console.get(instance_path(instance, "slowness"))
    return Answer(found, lambda: _show_why(found))


@app.command()
def watch(console: TenantConsole, instance: InstanceArgument) -> None:
    """Show the decision again every second, until Ctrl-C."""
    while True:
        view = console.get(instance_path(instance, "quota"), seconds=0)
        terminal().clear()
        _show(view)
        time.sleep(1)


@app.command("list")
def list_quotas(console: OperatorConsole) -> Answer:
    """All instances (operators)."""
    overview = console.get("quota")
    rows = (
        [
            view["instance_id"],
            *(_of(view[direction], _byte_rate) for direction in ("produce", "consume")),
            _of(view["cpu"]["total"], format_cpu),
            f"{format_bytes(view['stored_bytes'])} of {format_bytes(view['capacity_bytes'])}",
            "full" if view["blocked"] else "",
        ]
        for view in overview["instances"]
    )
    columns = ["INSTANCE", "PRODUCE", "CONSUME", "REQUEST TIME", "STORED", ""]
    return in_table(overview, columns, rows, empty="No instances.")


class _Point(TypedDict):
    point: str
    throttled_percent: float
    rate_per_s: int
    allocated_per_s: int


class _Effect(TypedDict):
    purchased_per_s: int
    throttled_percent: float
    arithmetic: str


class _Flow(TypedDict):
    flow: str
    rule: str
    explanation: str
    rate_per_s: int
    purchased_per_s: int
    held: list[_Point]
    effects: list[_Effect]


class _Topic(TypedDict):
    name: str
    records_per_s: float


class _Client(TypedDict):
    client_id: str
    address: str
    throttle_time_max_ms: float | None
    request_latency_avg_ms: float | None


class _Connected(TypedDict):
    address: str
    client_id: str
    connections: int
    in_bytes_per_s: int
    out_bytes_per_s: int


class _Why(TypedDict):
    verdict: str
    says: str
    flows: list[_Flow]
    topics: list[_Topic]
    busiest: list[_Connected]
    clients: list[_Client]


def _show_why(found: _Why) -> None:
    print_facts([(found["verdict"], found["says"])])
    for flow in found["flows"]:
        if flow["held"]:
            _show_held(flow)
    if found["topics"]:
        topics = ([one["name"], one["records_per_s"]] for one in found["topics"])
        print_table(["TOPIC", "RECORDS/S"], topics, empty="")
    if found["busiest"]:
        busiest = (
            [
                one["client_id"] or "-",
                one["address"],
                one["connections"],
                _byte_rate(one["in_bytes_per_s"]),
                _byte_rate(one["out_bytes_per_s"]),
            ]
            for one in found["busiest"]
        )
        print_table(["CLIENT", "ADDRESS", "CONNECTIONS", "IN", "OUT"], busiest, empty="")
    if found["clients"]:
        clients = (
            [
                one["client_id"],
                one["address"],
                _ms(one["throttle_time_max_ms"]),
                _ms(one["request_latency_avg_ms"]),
            ]
            for one in found["clients"]
        )
        print_table(["CLIENT", "ADDRESS", "THROTTLED AT MOST", "LATENCY"], clients, empty="")


def _show_held(flow: _Flow) -> None:
    told = format_cpu if flow["flow"] == "cpu" else _byte_rate
    step = f"{flow['rule']}: {flow['explanation']}"
    print_facts([("", ""), (flow["flow"], _of(flow, told)), ("step", step)])
    held = (
        [one["point"], _share(one), told(one["rate_per_s"]), told(one["allocated_per_s"])]
        for one in flow["held"]
    )
    print_table(["AT", "THROTTLED", "r", "q"], held, empty="")
    effects = ([told(one["purchased_per_s"]), _share(one), one["arithmetic"]] for one in flow["effects"])
    print_table(["WITH", "THROTTLED", "HOW"], effects, empty="")


def _share(one: _Point | _Effect) -> str:
    return f"{one['throttled_percent']:g} %"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _byte_rate(bytes_per_s: int) -> str:
    return format_bytes(bytes_per_s, rate=True)


def _of(direction: Any, text: Callable[[int], str]) -> str:
    return f"{text(direction['rate_per_s'])} of {text(direction['purchased_per_s'])}"


def _show(view: Any) -> None:
    stored = f"{format_bytes(view['stored_bytes'])} of {format_bytes(view['capacity_bytes'])}"
    print_facts(
        [("policy", view["policy"]), ("stored", stored + (" - producers blocked" if view["blocked"] else ""))]
    )
    for direction in ("produce", "consume"):
        decision = view[direction]
        print_facts([("", ""), (direction, _of(decision, _byte_rate)), ("why", decision["explanation"])])
        rows = (
            [broker["node_id"], *_rates(broker[direction], _byte_rate), _lease(broker)]
            for broker in view["brokers"]
        )
        print_table(["BROKER", *_COLUMNS], rows, empty="no broker has reported yet")
    _show_cpu(view["cpu"])


def _show_cpu(cpu: Any) -> None:
    bought = f"{_of(cpu['total'], format_cpu)} ({cpu['request_percent']} % of a core)"
    print_facts([("", ""), ("request time", bought), ("why", cpu["total"]["explanation"])])
    rows = ([point["point"], *_rates(point["flow"], format_cpu), _lease(point)] for point in cpu["points"])
    print_table(["POINT", *_COLUMNS], rows, empty="nothing was spent lately")
    if cpu["idle_points"]:
        points = "1 other point" if cpu["idle_points"] == 1 else f"{cpu['idle_points']} other points"
        print_facts([("idle", f"{points}, F together {format_cpu(cpu['idle_share_per_s'])}")])


def _rates(flow: Any, text: Callable[[int], str]) -> list[str]:
    names = ("rate", "share", "proportion", "allocated")
    return [*(text(flow[f"{name}_per_s"]) for name in names), str(flow["throttled_ms_per_s"])]


def _lease(point: Any) -> str:
    if point["silent"]:
        return f"silent for {point['report_age_ms'] / 1000:.0f} s"
    return f"epoch {point['lease_epoch']}" if point["on_lease"] else "none, fell back to F"
