"""What `portico instance move` does: order, follow, cancel, remove the old copy."""

import time
from typing import Any, Final

import typer

from contracts.units import format_bytes
from ctl.confirm import confirm
from ctl.console_client import Console, instance_path
from ctl.errors import CommandError, usage
from ctl.output import Answer, in_facts, in_table

InstanceOptional = typer.Argument(metavar="ID", help="Id or name.")
_LOOK_EVERY_S: Final = 0.5
_UNDER_WAY: Final = ("copying", "switching")


def moved(
    console: Console,
    instance: str | None,
    to: str | None,
    *,
    fill_gaps: bool,
    status: bool,
    cancel: bool,
    purge_old: bool,
    wait: bool,
    yes: bool,
) -> Answer:
    """One of the four."""
    if [to is not None, status, cancel, purge_old].count(True) != 1:
        raise usage("say one of --to CLUSTER, --status, --cancel, --purge-old")
    if fill_gaps and to is None:
        raise usage("--fill-gaps goes with --to CLUSTER")
    if instance is None:
        if not status:
            raise usage("say which instance")
        return _all(console)
    path = instance_path(instance, "move")
    if to is not None:
        move = console.call("POST", path, {"cluster": to, "fill_gaps": fill_gaps})
        while wait and move["phase"] in _UNDER_WAY:
            time.sleep(_LOOK_EVERY_S)
            move = console.get(path)
        if wait and move["phase"] in ("cancelling", "cancelled"):
            raise CommandError(f"it was not moved: {move['reason'] or 'somebody cancelled it'}")
        return _shown(move)
    if cancel:
        return _shown(console.call("DELETE", path))
    if purge_old:
        move = console.get(path)
        confirm(f"The copy of {move['instance']} on cluster {move['source']} is removed for good.", yes=yes)
        return _shown(console.call("DELETE", f"{path}/old-copy"))
    return _shown(console.get(path))


def _all(console: Console) -> Answer:
    items = console.get("moves")["items"]
    columns = ["ID", "INSTANCE", "FROM", "TO", "PHASE", "COPIED", "OF", "WHY IT STANDS"]
    rows = [
        [
            one["id"],
            one["instance"],
            one["source"],
            one["target"],
            one["phase"],
            format_bytes(one["copied_bytes"]),
            format_bytes(one["total_bytes"]),
            one["reason"] or "",
        ]
        for one in items
    ]
    return in_table(items, columns, rows, empty="No instance moves.")


def _shown(move: dict[str, Any]) -> Answer:
    facts = [
        ("move", move["id"]),
        ("instance", move["instance"]),
        ("from", move["source"]),
        ("to", move["target"]),
        ("phase", move["phase"]),
        ("copied", f"{format_bytes(move['copied_bytes'])} of {format_bytes(move['total_bytes'])}"),
    ]
    if move["reason"]:
        facts.append(("why it stands", move["reason"]))
    if move["tries"]:
        facts.append(("switches given up", str(move["tries"])))
    if move["gap_ms"] is not None:
        facts.append(("clients were held for", f"{move['gap_ms']} ms"))
    if move["phase"] == "switched":
        facts.append(("old copy", f"on {move['source']}: remove it with --purge-old when all is well"))
    return in_facts(move, facts)
