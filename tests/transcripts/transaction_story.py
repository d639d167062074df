"""The language of the transcripts of a transaction coordinator: producers ask, its log and brokers answer.

commands                                     output
init ID [timeout=MS] [expected=PID:EPOCH]    what each answer says, once it leaves
add ID PID:EPOCH TOPIC-N ...                 markers  that are asked for, of which producer and end
end ID PID:EPOCH commit|abort                state    of each id, where it has moved
written [TOPIC-N ...]  (markers; all of the newest unless some are named)
hold | release | refuse ERROR | late         appends wait from now on; the first of them ends so
pass MS | fail over [lost=BATCHES]           time goes by; another broker takes over
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.transactions.messages import InitResult, Producer
from broker.transactions.state import TopicPartition
from tests.unit.groups.world import Slot
from tests.unit.transactions.world import World


class Story:
    """A coordinator and the commands of a transcript."""

    def __init__(self) -> None:
        self._world = World()
        self._waiting: list[tuple[str, Slot]] = []
        self._states: dict[str, str] = {}
        self._ids: set[str] = set()

    def run(self, line: str) -> str:
        """Carry out a command; what came of it."""
        word, *words = line.split()
        already = 0 if word == "fail" else len(self._world.markers)  # the next coordinator sends anew
        _COMMANDS[word](self, *words)
        told = self._answers() + [_marker(each) for each in self._world.markers[already:]] + self._moves()
        return "\n".join(told) or "nothing"

    def _ask(self, name: str, slot: Slot, transactional_id: str) -> None:
        self._waiting.append((name, slot))
        self._ids.add(transactional_id)

    def _init(self, name: str, *options: str) -> None:
        given = dict(option.split("=") for option in options)
        expected = _producer(given["expected"]) if "expected" in given else None
        timeout_ms = int(given.get("timeout", "60000"))
        self._ask(
            f"init {name}",
            self._world.init_parked(name, timeout_ms=timeout_ms, expected=expected),
            name,
        )

    def _add(self, name: str, producer: str, *partitions: str) -> None:
        wanted = [_partition(each) for each in partitions]
        slot = self._world.add_parked(_producer(producer), *wanted, transactional_id=name)
        self._ask(f"add {name}", slot, name)

    def _end(self, name: str, producer: str, how: str) -> None:
        self._ask(f"end {name}", self._world.end_parked(_producer(producer), how == "commit", name), name)

    def _written(self, *partitions: str) -> None:
        self._world.write_markers(*(_partition(each) for each in partitions))

    def _hold(self) -> None:
        self._world.hold = True

    def _release(self) -> None:
        self._world.release()

    def _refuse(self, error: str) -> None:
        self._world.refuse(ErrorCode[error])

    def _late(self) -> None:
        self._world.let_wait()

    def _pass(self, duration_ms: str) -> None:
        self._world.pass_ms(int(duration_ms))

    def _fail(self, _over: str, *lost: str) -> None:
        self._world.hold = False
        self._world.fail_over(lost=int(lost[0].removeprefix("lost=")) if lost else 0)

    def _answers(self) -> list[str]:
        told = [f"{name}: {_answer(slot.result)}" for name, slot in self._waiting if not slot.is_parked]
        self._waiting = [each for each in self._waiting if each[1].is_parked]
        return told

    def _moves(self) -> list[str]:
        found = {}
        for name in sorted(self._ids):
            described = self._world.coordinator.known.describe(name)
            if described is not None:
                partitions = " ".join(
                    sorted(f"{each.topic}-{each.partition}" for each in described.partitions)
                )
                found[name] = f"{described.state.name.lower()} {partitions}".rstrip()
        moved = [f"state {name} {state}" for name, state in found.items() if self._states.get(name) != state]
        self._states = found
        return moved


def _producer(text: str) -> Producer:
    producer_id, _, epoch = text.partition(":")
    return Producer(int(producer_id), int(epoch))


def _partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def _answer(result: Any) -> str:
    if isinstance(result, InitResult) and result.error is ErrorCode.none:
        return f"producer {result.producer.producer_id}:{result.producer.producer_epoch}"
    error = result if isinstance(result, ErrorCode) else result.error
    return str(error.name)


def _marker(sent: Any) -> str:
    partitions = " ".join(sorted(f"{each.topic}-{each.partition}" for each in sent.partitions))
    end = "commit" if sent.is_commit else "abort"
    return f"markers {end} {sent.producer.producer_id}:{sent.producer.producer_epoch} {partitions}"


_COMMANDS: Final[dict[str, Any]] = {
    "init": Story._init,
    "add": Story._add,
    "end": Story._end,
    "written": Story._written,
    "hold": Story._hold,
    "release": Story._release,
    "refuse": Story._refuse,
    "late": Story._late,
    "pass": Story._pass,
    "fail": Story._fail,
}
