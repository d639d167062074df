"""What each part of the tier came to, as checked in: a run that comes to something else fails.

`PORTICO_REWRITE=1 ./portico test --tier ecosystem` renews the file from the run, then
`python -m tests.tidy.ecosystem_table --rewrite` the table of docs/clients.md.
"""

import json
import os
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path(__file__).parent / "certificate.json"


class Part(Enum):
    """One foreign program. The value is its row's name."""

    STREAMS = "Kafka Streams"
    CONNECT = "Kafka Connect"
    MIRROR_INSTANCES = "MirrorMaker 2, from instance to instance"
    MIRROR_KAFKA = "MirrorMaker 2, from Apache Kafka inward"
    FLINK = "Flink"
    DEBEZIUM = "Debezium"
    GROUPS = "A consumer group of KIP-848 with clients of four makers"
    GROUPS_OF_THREE = "The same on three brokers"
    REGISTRY = "Apicurio Registry"


class Result(NamedTuple):
    """What a part was, and what it came to."""

    ran: str
    records: int
    killed: str
    held: str


def read() -> dict[str, Result]:
    """By part, in their order; those that were run."""
    found = json.loads(FILE.read_text())
    return {part.value: Result(**found[part.value]) for part in Part if part.value in found}


def holds(part: Part, *, ran: str, records: int, killed: str, held: str) -> None:
    """What a part found out, said at its end, when all that it asserts has held."""
    result = Result(ran, records, killed, held)
    if os.environ.get("PORTICO_REWRITE") == "1":
        found = {name: each._asdict() for name, each in read().items()} if FILE.exists() else {}
        found[part.value] = result._asdict()
        ordered = {one.value: found[one.value] for one in Part if one.value in found}
        FILE.write_text(json.dumps(ordered, indent=2) + "\n")
    assert read().get(part.value) == result, f"{FILE.name} says otherwise: renew it from a run"
