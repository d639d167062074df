"""`portico cluster try`: a record through the whole product and back (`helm test` runs it)."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from confluent_kafka import KafkaException

from ctl.console_client import Console, instance_path
from ctl.console_options import OperatorConsole
from ctl.demo.clients import consume, create_topic, produce
from ctl.errors import CommandError

_RECORDS: Final = 100
_PATIENCE_S: Final = 60.0


def try_cluster(
    console: OperatorConsole,
    brokers: Annotated[int, typer.Option(min=1, help="Brokers that must be registered and alive.")] = 1,
) -> None:
    """Make an instance, produce with acks=all, consume in a group, and remove it again (operators)."""
    _look_at_brokers(console, brokers)
    with _instance(console) as instance:
        bootstrap = instance["bootstrap_servers"]
        try:
            create_topic(bootstrap, "try", brokers)
            produce(bootstrap, "try", _RECORDS, lambda number: b"%8d" % number)
            _elapsed_s, seen = consume(bootstrap, "try", "try", _RECORDS)
        except KafkaException as error:
            raise CommandError(f"{bootstrap}: {error.args[0]}") from error
        if len(seen) != _RECORDS:
            raise CommandError(f"{_RECORDS} records were written, {len(seen)} different ones were read")
    print(f"{_RECORDS} records went through {bootstrap} and came back")


def _look_at_brokers(console: Console, wanted: int) -> None:
    live = [row["node_id"] for row in console.get("brokers")["items"] if row["live"]]
    if len(live) < wanted:
        raise CommandError(f"{len(live)} of {wanted} brokers are alive: {live}")


@contextmanager
def _instance(console: Console) -> Iterator[Any]:
    body = {
        "name": f"try-{secrets.token_hex(4)}",
        "produce_rate_bytes_per_s": 1_000_000,
        "consume_rate_bytes_per_s": 1_000_000,
        "capacity_bytes": 100_000_000,
        "allow_all": True,  # which address this process has is the network's business
    }
    made = console.call("POST", "instances", body)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while (shown := console.get(instance_path(made["id"])))["state"] == "creating":
            if time.monotonic() > deadline:
                raise CommandError("no gateway serves the instance: do they follow the control plane?")
            time.sleep(0.2)
        if shown["state"] != "running":
            raise CommandError(f"the instance is {shown['state']}: {shown['state_reason']}")
        yield shown
    finally:
        console.call("DELETE", instance_path(made["id"]))
        console.call("POST", f"deleted-instances/{made['id']}/purge")
