"""What every client's program is asked, and what it answers.

A program reads one script from stdin as JSON: `connection` (`bootstrap`; `tls` with `ca` and perhaps
`certificate` and `key`, paths; `sasl` with `mechanism`, `user`, `password`, `token`; null where there is
none) and `steps`. It does one step after the other and prints a line of JSON for each: `{"result": ...}`,
`{"lacks": WHAT}` where the client has no such thing, `{"error": NAME, "text": ...}` with Kafka's name of the
error where the client tells it.

create            `topic` with `partitions` and `configs`, with the cluster's replication factor
describe          `{"partitions": n}` of `topic`
describe_configs  the values of `names` of `topic`
alter_configs     sets `configs` of `topic`
delete            `topic`
create_acl        allows `operation` to `principal` on the `type` of this `name`
produce           `count` records with `codec`: key `kN`, value `PREFIX-N-xxx...`, header `codec`, partition N
                  modulo `partitions`
transaction       the same as one transaction of `transactional_id`; `end` is `commit` or `abort`
consume           as a member of `group`: the first `count` records that come; commits their positions, leaves
read              the first `count` records of all `partitions` with `isolation`, by what way the client has

Records are `[partition, offset, key, value, header]`.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS: Final = 2
Step = dict[str, Any]


class Tls(NamedTuple):
    """Paths; without a certificate of its own the client shows none."""

    ca: str
    certificate: str | None = None
    key: str | None = None


class Sasl(NamedTuple):
    """A login. Of `password` and `token` there is the one that the mechanism asks for."""

    mechanism: str
    user: str
    password: str = ""
    token: str = ""


class Connection(NamedTuple):
    """Where a client comes in, and how."""

    bootstrap: str
    tls: Tls | None = None
    sasl: Sasl | None = None

    def spoken(self) -> dict[str, Any]:
        """As the script has it."""
        return {
            "bootstrap": self.bootstrap,
            "tls": None if self.tls is None else self.tls._asdict(),
            "sasl": None if self.sasl is None else self.sasl._asdict(),
        }


class Answer(NamedTuple):
    """To one step. One of them is not None."""

    result: Any = None
    lacks: str | None = None
    error: str | None = None
    text: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the client says that it did what it was asked."""
        return self.lacks is None and self.error is None


class Record(NamedTuple):
    """One that a client consumed."""

    partition: int
    offset: int
    key: str
    value: str
    header: str


def records(answer: Answer) -> list[Record]:
    """Of a step that consumes, in the order in which they came."""
    return [Record(*each) for each in answer.result["records"]]


def create(topic: str, configs: dict[str, str], partitions: int = PARTITIONS) -> Step:
    return {"do": "create", "topic": topic, "partitions": partitions, "configs": configs}


def describe(topic: str) -> Step:
    return {"do": "describe", "topic": topic}


def describe_configs(topic: str, names: Sequence[str]) -> Step:
    return {"do": "describe_configs", "topic": topic, "names": list(names)}


def alter_configs(topic: str, configs: dict[str, str]) -> Step:
    return {"do": "alter_configs", "topic": topic, "configs": configs}


def delete(topic: str) -> Step:
    return {"do": "delete", "topic": topic}


def create_acl(kind: str, name: str, principal: str, operation: str) -> Step:
    return {"do": "create_acl", "type": kind, "name": name, "principal": principal, "operation": operation}


def produce(topic: str, codec: str, prefix: str, count: int) -> Step:
    return {"do": "produce", **_batch(topic, codec, prefix, count)}


def transaction(topic: str, transactional_id: str, prefix: str, count: int, end: str) -> Step:
    own = {"transactional_id": transactional_id, "end": end}
    return {"do": "transaction", **own, **_batch(topic, "none", prefix, count)}


def consume(topic: str, group: str, count: int) -> Step:
    return {"do": "consume", "topic": topic, "group": group, "count": count}


def read(topic: str, count: int, isolation: str = "read_committed") -> Step:
    return {"do": "read", "topic": topic, "partitions": PARTITIONS, "count": count, "isolation": isolation}


def _batch(topic: str, codec: str, prefix: str, count: int) -> Step:
    return {
        "topic": topic,
        "codec": codec,
        "prefix": prefix,
        "count": count,
        "partitions": PARTITIONS,
    }
