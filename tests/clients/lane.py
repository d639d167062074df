"""One client, one way in, one backend: what it is asked, and what each cell of the matrix comes to."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.clients import contract
from tests.clients.contract import CODECS, PARTITIONS, Answer, records
from tests.clients.judging import (
    HELD,
    Written,
    answered,
    consumed,
    joined,
    stored_codecs,
    unlike,
    written,
)
from tests.clients.places import Instance
from tests.clients.programs import Client
from tests.clients.watcher import SETTINGS, Watcher

PRODUCED: Final = 40
GIVEN: Final = 20
"""Records of each codec that are there to be consumed."""
FIRST: Final = 60
"""How many of them the first process of a group takes; the second one has the rest."""
_REST: Final = GIVEN * len(CODECS) - FIRST
_CHANGED: Final = {"retention.ms": "7200000"}
CELLS: Final = (
    *("create", *CODECS, "group", "resume", "transactions", "read_committed"),
    *("describe", "describe_configs", "alter_configs", "delete"),
)


class Given:
    """What is there before a client comes: records in every codec, and transactions that ended either way."""

    def __init__(self, instance: Instance) -> None:
        self.watcher = Watcher(instance.connection("plain"))
        self.watcher.create("given", "ended")
        parts = [written(codec, codec, GIVEN) for codec in CODECS]
        for codec, part in zip(CODECS, parts, strict=True):
            self.watcher.write("given", codec, part)
        self.records = joined(*parts)
        self.kept = joined(*(written("none", name, GIVEN) for name in ("first", "last")))
        for name in ("first", "aborted", "last"):
            part = written("none", name, GIVEN)
            producer = self.watcher.write("ended", "none", part, **{"transactional.id": "given"})
            (producer.abort_transaction if name == "aborted" else producer.commit_transaction)(60)


def prepared(given: Given, way: str) -> None:
    """The topics that a client does not make itself."""
    given.watcher.create(*(f"{way}-{name}" for name in (*CODECS, "ends", "kept", "gone")))


def asked(way: str) -> dict[str, contract.Step]:
    """The steps of the first process, by name, in order."""
    ends = [(name, "abort" if name == "aborted" else "commit") for name in ("first", "aborted", "last")]
    return {
        "create": contract.create(f"{way}-made", SETTINGS),
        **{codec: contract.produce(f"{way}-{codec}", codec, codec, PRODUCED) for codec in CODECS},
        **{name: contract.transaction(f"{way}-ends", f"{way}-id", name, PRODUCED, end) for name, end in ends},
        "read_committed": contract.read("ended", 2 * GIVEN),
        "describe": contract.describe("given"),
        "describe_configs": contract.describe_configs("given", list(SETTINGS)),
        "alter_configs": contract.alter_configs(f"{way}-kept", _CHANGED),
        "delete": contract.delete(f"{way}-gone"),
        "group": contract.consume("given", f"{way}-group", FIRST),
    }


def run(client: Client, instance: Instance, given: Given, way: str) -> dict[str, str]:
    """Of each cell what is wrong with it, nothing where it holds."""
    prepared(given, way)
    steps = asked(way)
    connection = instance.connection(way)
    told = dict(zip(steps, client.ran(connection, list(steps.values())), strict=True))
    group = f"{way}-group"
    committed = given.watcher.committed(group, "given") if told["group"].is_done else {}
    (resumed,) = client.ran(connection, [contract.consume("given", group, _REST)])
    first, second = consumed([told["group"], resumed], [FIRST, _REST], given.records)
    found = {
        "create": answered(told["create"]) or _created(given.watcher, f"{way}-made"),
        **{codec: answered(told[codec]) or _produced(instance, given, way, codec) for codec in CODECS},
        "group": first or _commits(told["group"], committed),
        "resume": second,
        "transactions": _transactions(told, given.watcher, f"{way}-ends"),
        "read_committed": _read(told["read_committed"], given.kept),
        "describe": _equal(told["describe"], {"partitions": PARTITIONS}),
        "describe_configs": _equal(told["describe_configs"], SETTINGS),
        "alter_configs": answered(told["alter_configs"]) or _altered(given.watcher, f"{way}-kept"),
        "delete": answered(told["delete"]) or _deleted(given.watcher, f"{way}-gone"),
    }
    assert tuple(found) == CELLS
    return found


def _created(watcher: Watcher, topic: str) -> str:
    if (count := watcher.partitions(topic)) != PARTITIONS:
        return f"the topic has {count} partitions"
    told = {name: watcher.config(topic, name) for name in SETTINGS}
    return HELD if told == SETTINGS else f"its configs are {told}"


def _produced(instance: Instance, given: Given, way: str, codec: str) -> str:
    topic = f"{way}-{codec}"
    for partition in range(PARTITIONS):
        replicas = instance.place.logs(instance.id, topic, partition)
        codecs, count = stored_codecs(replicas)
        if codecs != {codec} or count != PRODUCED // PARTITIONS:
            return f"{count} records are stored in {', '.join(sorted(codecs))}"
    return unlike(given.watcher.read(topic), written(codec, codec, PRODUCED))


def _commits(answer: Answer, committed: Mapping[int, int]) -> str:
    """What a group's offsets are, as somebody else is told."""
    wanted = {one.partition: one.offset + 1 for one in records(answer)}
    told = {one: committed.get(one) for one in wanted}
    return HELD if told == wanted else f"offsets {told} are committed, not {wanted}"


def _transactions(told: Mapping[str, Answer], watcher: Watcher, topic: str) -> str:
    for name in ("first", "aborted", "last"):
        if wrong := answered(told[name]):
            return wrong
    parts = {name: written("none", name, PRODUCED) for name in ("first", "aborted", "last")}
    committed = joined(parts["first"], parts["last"])
    return unlike(watcher.read(topic), committed) or unlike(
        watcher.read(topic, "read_uncommitted"), joined(*parts.values())
    )


def _read(answer: Answer, wanted: Mapping[int, Sequence[Written]]) -> str:
    return answered(answer) or unlike(records(answer), wanted)


def _equal(answer: Answer, wanted: object) -> str:
    return answered(answer) or (HELD if answer.result == wanted else f"it is told {answer.result}")


def _altered(watcher: Watcher, topic: str) -> str:
    told = {name: watcher.config(topic, name) for name in _CHANGED}
    return HELD if told == _CHANGED else f"its configs are {told}"


def _deleted(watcher: Watcher, topic: str) -> str:
    return HELD if watcher.partitions(topic) is None else "the topic is still there"
