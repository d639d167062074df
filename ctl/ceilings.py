"""What a tenant may have and a cluster may sell, on the command line: shown, and set by operators."""

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import typer

from contracts.units import format_bytes
from ctl.command import Made
from ctl.errors import usage
from ctl.options import parse_rate, parse_size
from ctl.output import Answer, in_table

DEFAULT: Final = "default"
"""What is given to undo a setting."""


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise usage(f"'{text}' is not a number, nor '{DEFAULT}'")
    return int(text)


def _rate(value: int) -> str:
    return format_bytes(value, rate=True)


class _Kind(NamedTuple):
    """One thing that is sold."""

    words: str
    parse: Callable[[str], int] = _count
    text: Callable[[int], str] = "{:,}".format


_KINDS: Final = {
    "instances": _Kind("instances"),
    "produce_rate_bytes_per_s": _Kind("produce rate", parse_rate, _rate),
    "consume_rate_bytes_per_s": _Kind("consume rate", parse_rate, _rate),
    "capacity_bytes": _Kind("capacity", parse_size, format_bytes),
    "partitions": _Kind("partitions"),
    "connections": _Kind("connections"),
    "faults": _Kind("injected faults"),
}
InstancesOption = Annotated[str | None, typer.Option("--instances", metavar="N|default")]
ProduceRateOption = Annotated[str | None, typer.Option("--produce-rate", metavar="RATE|default")]
ConsumeRateOption = Annotated[str | None, typer.Option("--consume-rate", metavar="RATE|default")]
CapacityOption = Annotated[str | None, typer.Option("--capacity", metavar="SIZE|default")]
PartitionsOption = Annotated[
    str | None, typer.Option("--partitions", metavar="N|default", help="Sum of partitions_max.")
]
ConnectionsOption = Annotated[
    str | None, typer.Option("--connections", metavar="N|default", help="Sum of connections_max.")
]

FaultsOption = Annotated[
    str | None, typer.Option("--faults", metavar="N|default", help="Injected at once; 0 forbids them.")
]


def _change(
    instances: InstancesOption = None,
    produce_rate: ProduceRateOption = None,
    consume_rate: ConsumeRateOption = None,
    capacity: CapacityOption = None,
    partitions: PartitionsOption = None,
    connections: ConnectionsOption = None,
    faults: FaultsOption = None,
) -> dict[str, int | None]:
    given = (instances, produce_rate, consume_rate, capacity, partitions, connections, faults)
    wanted = {
        name: None if text == DEFAULT else kind.parse(text)
        for (name, kind), text in zip(_KINDS.items(), given, strict=True)
        if text is not None
    }
    if not wanted:
        raise usage("say what to change, for example --instances 50 or --capacity default")
    return wanted


Wanted = Annotated[dict[str, int | None], Made(_change)]
"""The body of a change, in the words of the API; None undoes a setting."""


def answer(standing: dict[str, Any]) -> Answer:
    """What may be had, is had, and is left."""
    rows = [
        [
            kind.words,
            *(kind.text(standing[column][name]) for column in ("ceilings", "sold", "left")),
            "operator" if name in standing["own"] else DEFAULT,
        ]
        for name, kind in _KINDS.items()
    ]
    columns = [standing["name"].upper(), "MAY HAVE", "HAS", "LEFT", "SET BY"]
    return in_table(standing, columns, rows, empty="")
