"""The language of the controller's transcripts.

A command acts on a cluster (`tests.unit.controller.world`) that then runs until it comes to rest; the output
is what the controllers did to the tree and told the brokers, in order:

    commands                                       output
    start 1 2 3 [unclean]                          1: the broker whose controller acts
    crash 1        (its session expires)             commit   a transaction, one operation per line; each is
    elect 1                                                   fenced by a check of the controller epoch
    create t partitions=2 factor=3 [key=value]       send     LeaderAndIsr    leader/{isr} epoch.version of
    grow t 4 | delete t | config t key=value                                  {replicas}, + adding, - removing
    isr t 0 1,2    (the leader writes it)                     StopReplica     delete or stop
    catch-up       (followers join ISRs)                      UpdateMetadata  names what changed
    reassign t 0 4,5,6 | cancel t 0 | moving         note     a line of the log
    elect-preferred | elect-unclean [t 0]            answer   of a call of the API
    shutdown 1 | tick 300000
    fail-dir 2 t 0 | write /path text | remove /path
    state t 0 | topic t   (what the tree holds)
"""

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from broker.controller import events
from broker.controller.api import (
    DeletedTopicName,
    ElectionKind,
    NewPartitions,
    NewTopic,
    Verdict,
)
from broker.controller.controller_config import InternalTopic
from broker.controller.effects import Answer, Commit, Effect, Note, Send
from broker.metadata.znode_paths import CONTROLLER_EPOCH, LOG_DIR_EVENT_PREFIX, TOPICS
from broker.metadata.znodes import Assignment, TopicNode, decode_state, decode_topic, encode_log_dir_event
from contracts.cluster import (
    Command,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from contracts.tree import Check, Create, Delete, Op, SetData
from tests.unit.controller.world import World

_STATE: Final = re.compile(rf"{TOPICS}/([^/]+)/partitions/(\d+)/state")
_TOPIC: Final = re.compile(rf"{TOPICS}/([^/]+)")


class Story:
    """A cluster and the commands of a transcript."""

    def __init__(self) -> None:
        self.world = World()
        self._calls = 0

    def run(self, command: str) -> str:
        """Carry a command out; its output."""
        words = command.split()
        del self.world.trace[:]
        method: Callable[..., str | None] = getattr(self, "do_" + words[0].replace("-", "_"))
        said = method(*words[1:])
        self.world.run()
        lines = list(self._trace())
        if said:
            lines.append(said)
        return "\n".join(lines) or "nothing"

    def _trace(self) -> Iterator[str]:
        for (broker_id, is_send), group in groupby(
            self.world.trace, lambda each: (each[0], isinstance(each[1], Send))
        ):
            effects = [effect for _, effect in group]
            lines = sends(effects) if is_send else (line for each in effects for line in rendered(each))
            yield from (f"{broker_id}: {line}" for line in lines)

    def _call(self, make: Callable[[int], Any]) -> None:
        self._calls += 1
        self.world.post(make(self._calls))

    def do_cluster(self, *words: str) -> None:
        """cluster 6 [key=value]: brokers 1 to 6, none started; settings of ControllerConfig."""
        named = [word.partition("=") for word in words[1:] if "=" in word]
        settings = {key: _setting(value) for key, _, value in named}
        if "internal" in words:
            settings["internal_topics"] = (
                InternalTopic("__consumer_offsets", 2, {"cleanup.policy": "compact"}),
            )
        self.world = World(*range(1, int(words[0]) + 1), **settings)

    def do_start(self, *words: str) -> None:
        for word in words:
            if word != "unclean":
                self.world.start(int(word), unclean="unclean" in words)

    def do_crash(self, *words: str) -> None:
        for word in words:
            self.world.crash(int(word))

    def do_bounce(self, word: str) -> None:
        """Crash and start before the controller looks."""
        self.world.crash(int(word))
        self.world.start(int(word))

    def do_elect(self, word: str) -> None:
        self.world.elect(int(word))

    def do_create(self, topic: str, *words: str) -> None:
        named = dict(word.split("=", 1) for word in words)
        partitions, factor = int(named.pop("partitions", -1)), int(named.pop("factor", -1))
        assigned = named.pop("assigned", "")
        assignment = dict(enumerate(_ids(each) for each in assigned.split("/"))) if assigned else None
        new = NewTopic(topic, UUID(int=hash_of(topic)), partitions, factor, assignment, named)
        self._call(lambda call_id: events.CreateTopics(call_id, [new], False))

    def do_grow(self, topic: str, total: str) -> None:
        self._call(
            lambda call_id: events.CreatePartitions(call_id, [NewPartitions(topic, int(total))], False)
        )

    def do_delete(self, *topics: str) -> None:
        names = [DeletedTopicName(topic) for topic in topics]
        self._call(lambda call_id: events.DeleteTopics(call_id, names))

    def do_config(self, topic: str, word: str) -> None:
        key, _, value = word.partition("=")
        self.world.configure(topic, **{key: value})

    def do_isr(self, topic: str, partition: str, isr: str) -> None:
        self.world.shrink(topic, int(partition), *_ids(isr))

    def do_catch_up(self) -> None:
        self.world.run(catching_up=True)

    def do_reassign(self, topic: str, partition: str, target: str) -> None:
        targets = {(topic, int(partition)): _ids(target)}
        self._call(lambda call_id: events.AlterReassignments(call_id, targets))

    def do_cancel(self, topic: str, partition: str) -> None:
        self._call(lambda call_id: events.AlterReassignments(call_id, {(topic, int(partition)): None}))

    def do_moving(self) -> None:
        self._call(lambda call_id: events.ListReassignments(call_id, None))

    def do_elect_preferred(self, *words: str) -> None:
        self._elect(ElectionKind.PREFERRED, words)

    def do_elect_unclean(self, *words: str) -> None:
        self._elect(ElectionKind.UNCLEAN, words)

    def _elect(self, kind: ElectionKind, words: tuple[str, ...]) -> None:
        partitions = [(words[0], int(words[1]))] if words else None
        self._call(lambda call_id: events.ElectLeaders(call_id, kind, partitions))

    def do_shutdown(self, word: str) -> None:
        broker = self.world.brokers[int(word)]
        request = ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
        self._call(lambda call_id: events.ControlledShutdown(call_id, request))

    def do_tick(self, word: str) -> None:
        self.world.now_ms += int(word)
        self.world.post(events.Tick())

    def do_fail_dir(self, broker: str, topic: str, partition: str) -> None:
        self.world.brokers[int(broker)].fail_log((topic, int(partition)))
        event = encode_log_dir_event(int(broker))
        self.world.commit(0, [Create(LOG_DIR_EVENT_PREFIX, event, sequential=True)])

    def do_mend(self, word: str) -> None:
        self.world.brokers[int(word)].disk.mend()

    def do_watches(self) -> str:
        """What the controller watches."""
        node = self.world.nodes.get(self.world.controller_id or 0)
        return "no controller" if node is None else "\n".join(node.watches)

    def do_write(self, path: str, *text: str) -> None:
        self.world.write(path, " ".join(text).encode())

    def do_remove(self, path: str) -> None:
        self.world.commit(0, [Delete(path)])

    def do_state(self, topic: str, partition: str) -> str:
        node = self.world.tree.get(f"{TOPICS}/{topic}/partitions/{partition}/state")
        return "no state" if node is None else _state(node.data)

    def do_topic(self, topic: str) -> str:
        node = self.world.topic(topic)
        return "no topic" if node is None else _topic(node)

    def do_logs(self) -> str:
        return "\n".join(
            f"{broker_id}: {' '.join(sorted(f'{t}-{p}' for t, p in broker.logs)) or 'none'}"
            for broker_id, broker in self.world.brokers.items()
        )


def hash_of(topic: str) -> int:
    """A topic id that a reader can tell."""
    return int.from_bytes(topic.encode()[:8], "big")


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _setting(text: str) -> Any:
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else int(text)


def rendered(effect: Effect) -> Iterator[str]:
    """An effect as lines; reads are not told."""
    match effect:
        case Commit(batches):
            for batch in batches:
                fence, *ops = batch
                assert isinstance(fence, Check) and fence.path == CONTROLLER_EPOCH, f"not fenced: {batch}"
                yield from (
                    f"{'commit' if place == 0 else '   and'} {_op(op)}" for place, op in enumerate(ops)
                )
        case Answer(_, result):
            yield f"answer {_answer(result)}"
        case Note(cause, fields):
            yield " ".join(["note", cause.value, *(f"{key}={value}" for key, value in fields.items())])


def sends(effects: list[Effect]) -> Iterator[str]:
    """One announcement: what is the same for several brokers is told once."""
    receivers: dict[str, list[int]] = {}
    for effect in effects:
        assert isinstance(effect, Send)
        receivers.setdefault(_request(effect.request), []).append(effect.broker_id)
    yield from (f"send {','.join(map(str, to))} {text}" for text, to in receivers.items())


def _op(op: Op) -> str:
    match op:
        case Create(path, data) | SetData(path, data):
            verb = "create" if isinstance(op, Create) else "set"
            return f"{verb} {path} {_data(path, data)}".rstrip()
        case Delete(path):
            return f"delete {path}"
        case Check(path):
            return f"check {path}"


def _data(path: str, data: bytes) -> str:
    if _STATE.fullmatch(path):
        return _state(data)
    if _TOPIC.fullmatch(path):
        return _topic(decode_topic(data))
    return data.decode()


def _state(data: bytes) -> str:
    state = decode_state(data)
    recovering = " recovering" if state.leader_recovery_state else ""
    return f"{state.leader}/{_set(state.isr)} epoch {state.leader_epoch}{recovering}"


def _topic(node: TopicNode) -> str:
    return " ".join(f"{index}:{_assignment(each)}" for index, each in node.partitions.items())


def _assignment(each: Assignment) -> str:
    adding = "+" + _set(each.adding_replicas) if each.adding_replicas else ""
    removing = "-" + _set(each.removing_replicas) if each.removing_replicas else ""
    return _set(each.replicas) + adding + removing


def _set(brokers: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, brokers)) + "}"


def _request(request: Command) -> str:
    match request:
        case LeaderAndIsrRequest():
            states = [
                f"{each.topic}-{each.partition} {each.leader}/{_set(each.isr)} "
                f"{each.leader_epoch}.{each.partition_epoch} of "
                f"{_assignment(Assignment(each.replicas, each.adding_replicas, each.removing_replicas))}"
                f"{' new' if each.is_new else ''}"
                for each in request.partition_states
            ]
            return " ".join(
                ["LeaderAndIsr", *(["full"] if request.is_full else []), "; ".join(states)]
            ).rstrip()
        case StopReplicaRequest():
            return "StopReplica " + "; ".join(
                f"{each.topic}-{each.partition} {'delete' if each.delete_partition else 'stop'}"
                for each in request.partition_states
            )
        case UpdateMetadataRequest():
            parts = [
                f"brokers {_brokers(request)}",
                *(f"gone {each.topic}" for each in request.deleted_topics),
                *(f"topic {each.topic} {each.configs or ''}".rstrip() for each in request.topic_states),
                *(
                    f"{each.topic}-{each.partition} {each.leader}/{_set(each.isr)}"
                    + (f" offline {_set(each.offline_replicas)}" if each.offline_replicas else "")
                    for each in request.partition_states
                ),
            ]
            return f"UpdateMetadata{' full' if request.is_full else ''} {'; '.join(parts)}"


def _brokers(request: UpdateMetadataRequest) -> str:
    return ",".join(
        f"{each.broker_id}{'(leaving)' if each.in_controlled_shutdown else ''}"
        for each in request.live_brokers
    )


def _answer(result: Any) -> str:
    if isinstance(result, Verdict):
        return result.error_code.name
    if isinstance(result, ControlledShutdownResponse):
        remaining = ", ".join(f"{each.topic}-{each.partition}" for each in result.remaining_partitions)
        return f"error {result.error_code}" if result.error_code else f"remaining: {remaining or 'none'}"
    if isinstance(result, dict):
        named = (f"{name[0]}-{name[1]} {_answer(each)}" for name, each in result.items())
        return "; ".join(named) or "none"
    if isinstance(result, Assignment):
        return _assignment(result)
    if isinstance(result, list):
        return "; ".join(_answer(each if isinstance(each, Verdict) else each.verdict) for each in result)
    raise AssertionError(f"not an answer: {result}")
