"""`bench quota`: a hot partition that moves, held to what was bought by us and by Apache Kafka's user quotas.

Ten partitions on three brokers; one of them is offered more than was bought, the others a trickle, and every
20 s it is one that another broker leads. Ours by policy `fair` and `seed`; theirs with T / 3 at each broker,
since a user quota is each broker's own. All in one run, in turns. In every other turn less than T is offered.
What could not be sent while a move was new is sent as soon as that goes, and then T is the limit for once:
who is told to wait is throttled wrongly when neither the second before nor the one after it carried T.
"""

import bisect
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import kio.schema.alter_client_quotas.v0.request as alter_client_quotas_v0
import kio.schema.metadata.v4.request as metadata_v4

from ctl.bench import servers
from ctl.bench.apache_kafka import kafka_cluster
from ctl.bench.load import Client, Endpoint, create_topic, produce_answer, produce_frames, workload
from ctl.bench.measure import Say, Spread
from ctl.console_client import Console
from ctl.kafka.jars import missing_tools
from ctl.stack.layout import Layout, free_port
from ctl.stack.own_stack import own_environment, started

# kio types its fields with refined integers; plain ones are what it encodes
_QUOTAS: Any = alter_client_quotas_v0
_METADATA: Any = metadata_v4
T_BYTES_PER_S: Final = 2_000_000
"""Bought."""
PARTITIONS: Final = 10
BROKERS: Final = 3
MOVES_EVERY_S: Final = 20.0
MOVES: Final = 3
"""In one turn of one peer."""
PERIOD_S: Final = 1.0
"""Between two reports."""
SETTLES_S: Final = 2 * PERIOD_S
REACHED: Final = 0.95
"""Of T, as much as is to be delivered."""
SPAN_S: Final = 10.0
BATCH_BYTES: Final = 16_000
MORE: Final = 1.5
"""Offered to the hot partition, of T."""
LESS: Final = 0.75
OFFERED: Final = {"more": MORE, "less": LESS}
_TRICKLE: Final = 0.04
"""Offered to all others together."""
_WINDOW: Final = 8
_TOPIC: Final = "hot"
_ANSWER_S: Final = 60.0
_ROOM_BYTES: Final = 4 * 10**9
_HEAP: Final = "512m"
_POLICIES: Final = ("fair", "seed")
_INSTANCE: Final = {
    "name": "quota",
    "produce_rate_bytes_per_s": T_BYTES_PER_S,
    "consume_rate_bytes_per_s": T_BYTES_PER_S,
    "capacity_bytes": 10**10,
    "whitelist": ["127.0.0.0/8"],
}


class Answer(NamedTuple):
    """One request that was acknowledged."""

    at_s: float
    size_bytes: int
    throttle_ms: int


class Turn(NamedTuple):
    """What one turn of one peer came to, for each move; all of T, or of the time."""

    after_moves: list[float]
    """Delivered from two report periods after a move until the next one."""
    spans: list[float]
    """Delivered over every 10 s, begun each second."""
    throttled_wrongly: float
    """Time for which clients were told to wait while less than T was carried, of all time behind the first
    two periods of a move."""


class Hot:
    """Offers a rate to the hot partition and a trickle to the others; a connection for each leader."""

    def __init__(self, leaders: dict[int, Endpoint], offered_bytes_per_s: float) -> None:
        self._leaders = leaders
        self._offered = offered_bytes_per_s
        self._frames = produce_frames(_TOPIC, workload(BATCH_BYTES), PARTITIONS)
        self._lock = threading.Lock()
        self.answers: list[Answer] = []
        self._failures: list[str] = []

    def run(self, hot: Sequence[int]) -> float:
        """One hot partition after the other. The answer is when the first one began, monotonic."""
        begins_s = time.monotonic()
        ends_s = begins_s + MOVES_EVERY_S * len(hot)
        trickle = threading.Thread(target=self._trickle, args=(ends_s,), daemon=True)
        trickle.start()
        parts = [
            threading.Thread(
                target=self._offer,
                args=(partition, begins_s + n * MOVES_EVERY_S, begins_s + (n + 1) * MOVES_EVERY_S),
                daemon=True,
            )
            for n, partition in enumerate(hot)
        ]
        for part in parts:
            part.start()
        for thread in (*parts, trickle):
            thread.join(MOVES_EVERY_S * len(hot) + _ANSWER_S)
        if self._failures:
            raise RuntimeError(self._failures[0])
        return begins_s

    def _offer(self, partition: int, begins_s: float, ends_s: float) -> None:
        """What was not answered when the hot partition moves stays behind, as a client's would."""
        frame = self._frames[partition]
        time.sleep(max(0.0, begins_s - time.monotonic()))
        client = Client(self._leaders[partition], answer_bytes_max=65_536)
        sent = answered = 0
        try:
            while (now_s := time.monotonic()) < ends_s:
                ahead_s = sent * len(frame) / self._offered - (now_s - begins_s)
                if sent - answered >= _WINDOW or ahead_s > 0.05:
                    if sent == answered:
                        time.sleep(ahead_s)
                        continue
                    self._take(client, len(frame))
                    answered += 1
                    continue
                client.socket.sendall(frame)
                sent += 1
        except (OSError, RuntimeError) as error:
            self._failures.append(str(error))
        finally:
            client.socket.close()

    def _trickle(self, ends_s: float) -> None:
        clients = {each: Client(each, answer_bytes_max=65_536) for each in set(self._leaders.values())}
        number = 0
        try:
            while time.monotonic() < ends_s:
                partition = number % PARTITIONS
                frame = self._frames[partition]
                client = clients[self._leaders[partition]]
                client.socket.sendall(frame)
                self._take(client, len(frame))
                number += 1
                time.sleep(len(frame) / (_TRICKLE * T_BYTES_PER_S))
        except (OSError, RuntimeError) as error:
            self._failures.append(str(error))
        finally:
            for client in clients.values():
                client.socket.close()

    def _take(self, client: Client, size_bytes: int) -> None:
        answer = produce_answer(client, client.receive())
        code = answer.responses[0].partition_responses[0].error_code
        if code != 0:
            raise RuntimeError(f"produce was refused with error {code}")
        throttle_ms = round(answer.throttle_time.total_seconds() * 1000)
        with self._lock:
            self.answers.append(Answer(time.monotonic(), size_bytes, throttle_ms))


def judged(answers: Sequence[Answer], begins_s: float, moves: int) -> Turn:
    """A turn of so many moves that began then."""

    def rate(from_s: float, to_s: float) -> float:
        carried = sum(each.size_bytes for each in answers if from_s <= each.at_s - begins_s < to_s)
        return carried / (to_s - from_s) / T_BYTES_PER_S

    length_s = moves * MOVES_EVERY_S
    after = [rate(n * MOVES_EVERY_S + SETTLES_S, (n + 1) * MOVES_EVERY_S) for n in range(moves)]
    spans = [rate(at, at + SPAN_S) for at in range(int(length_s - SPAN_S) + 1)]
    settled = [
        each
        for each in answers
        if each.at_s - begins_s < length_s and (each.at_s - begins_s) % MOVES_EVERY_S >= SETTLES_S
    ]
    wrongly_s = wrongly_told_s(settled, answers)
    return Turn(after, spans, wrongly_s / (moves * (MOVES_EVERY_S - SETTLES_S)))


def wrongly_told_s(told: Sequence[Answer], answers: Sequence[Answer]) -> float:
    """How long clients were told to wait by `told`, some of all `answers`, while less than T was carried.

    Time that several wait at once counts once.
    """
    ordered = sorted(answers, key=lambda each: each.at_s)
    times = [each.at_s for each in ordered]
    carried = [0, *itertools.accumulate(each.size_bytes for each in ordered)]

    def is_reached(from_s: float, to_s: float) -> bool:
        bytes_ = carried[bisect.bisect_right(times, to_s)] - carried[bisect.bisect_left(times, from_s)]
        return bytes_ >= REACHED * T_BYTES_PER_S * (to_s - from_s)

    until_s, wrongly_s = 0.0, 0.0
    for each in sorted(told, key=lambda each: each.at_s):
        at_s, ends_s = each.at_s, each.at_s + each.throttle_ms / 1000
        if (
            ends_s > until_s
            and not is_reached(at_s - PERIOD_S, at_s)
            and not is_reached(at_s, at_s + PERIOD_S)
        ):
            wrongly_s += ends_s - max(at_s, until_s)
            until_s = ends_s
    return wrongly_s


class Peer(NamedTuple):
    """Who is measured."""

    name: str
    bootstrap: Endpoint
    policy: str | None = None


def leaders(bootstrap: Endpoint) -> dict[int, Endpoint]:
    """Where each partition's requests go."""
    request = _METADATA.MetadataRequest(
        topics=(_METADATA.MetadataRequestTopic(name=_TOPIC),), allow_auto_topic_creation=False
    )
    client = Client(bootstrap, answer_bytes_max=65_536)
    try:
        answer = client.call(request)
    finally:
        client.socket.close()
    at = {int(one.node_id): Endpoint(int(one.port), None, str(one.host)) for one in answer.brokers}
    return {int(one.partition_index): at[int(one.leader_id)] for one in answer.topics[0].partitions}


def until_led(bootstrap: Endpoint) -> dict[int, Endpoint]:
    """The same, once every partition is led. Raises: RuntimeError."""
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        try:
            found = leaders(bootstrap)
        except (OSError, KeyError):
            found = {}
        if len(found) == PARTITIONS and len(set(found.values())) == BROKERS:
            return found
        time.sleep(0.2)
    raise RuntimeError("the partitions were not led by three brokers within a minute")


def moving(led: dict[int, Endpoint], moves: int) -> list[int]:
    """Partitions, each of another broker than the one before."""
    of_broker: dict[Endpoint, list[int]] = {}
    for partition, broker in sorted(led.items()):
        of_broker.setdefault(broker, []).append(partition)
    groups = list(of_broker.values())
    return [groups[n % len(groups)][n // len(groups) % len(groups[n % len(groups)])] for n in range(moves)]


class Bench:
    """The peers of one run."""

    def __init__(self, data_dir: Path, say: Say) -> None:
        self._data_dir = data_dir
        self._say = say

    def turns(self, peers: Sequence[Peer], rounds: int) -> dict[str, object]:
        """All peers in turns, `rounds` times."""
        found: dict[str, dict[str, list[Turn]]] = {
            each.name: {phase: [] for phase in OFFERED} for each in peers
        }
        led = {each.bootstrap: until_led(each.bootstrap) for each in peers}
        for number in range(rounds):
            for phase, part in OFFERED.items():
                for peer in peers:
                    self._say(f"{peer.name}, offered {part} T, round {number + 1} of {rounds}")
                    if peer.policy is not None:
                        self._set_policy(peer.policy)
                    load = Hot(led[peer.bootstrap], part * T_BYTES_PER_S)
                    begins_s = load.run(moving(led[peer.bootstrap], MOVES))
                    found[peer.name][phase].append(judged(load.answers, begins_s, MOVES))
        return {name: _figures(of_peer) for name, of_peer in found.items()}

    def _set_policy(self, policy: str) -> None:
        layout = Layout(self._data_dir)
        url = json.loads(layout.stack_file.read_text())["internal"]
        headers = {"Authorization": f"Bearer {layout.ensure_secret()}"}
        answer = httpx.put(
            f"{url}/internal/v1/policy", json={"policy": policy}, headers=headers, timeout=10, trust_env=False
        )
        answer.raise_for_status()


def _figures(of_peer: dict[str, list[Turn]]) -> dict[str, object]:
    more, less = of_peer["more"], of_peer["less"]
    enough = LESS + _TRICKLE
    return {
        "offered 1.5 T: delivered from 2 s after each move, of T": Spread.of(
            [each for turn in more for each in turn.after_moves]
        ),
        "offered 1.5 T: over any 10 s, of T": Spread.of([each for turn in more for each in turn.spans]),
        "offered 0.79 T: delivered from 2 s after each move, of what was offered": Spread.of(
            [each / enough for turn in less for each in turn.after_moves]
        ),
        "offered 0.79 T: told to wait while less than T was carried, % of the time": Spread.of(
            [100 * turn.throttled_wrongly for turn in less]
        ),
    }


@contextmanager
def _ours(directory: Path) -> Iterator[Endpoint]:
    arguments = ("--console", f"127.0.0.1:{free_port()}", "--metrics", "127.0.0.1:0", "--workers", "1")
    brokers = ("--brokers", str(BROKERS), "--deletion-grace", "0")
    with (
        started(directory, *arguments, *brokers, variables=own_environment()),
        Console.of(directory) as console,
    ):
        made = console.wait_until_serving(console.call("POST", "instances", _INSTANCE)["id"])
        host, _, port = made["bootstrap_servers"].partition(",")[0].rpartition(":")
        yield Endpoint(int(port), None, host)


def _refused(bootstrap: Endpoint, request: Any) -> str | None:
    """Why quotas are not taken, a minute long: a cluster that has just started has no controller yet."""
    deadline = time.monotonic() + _ANSWER_S
    while True:
        client = Client(bootstrap, answer_bytes_max=65_536)
        try:
            answer = client.call(request)
        finally:
            client.socket.close()
        faults = [
            str(entry.error_message or entry.error_code) for entry in answer.entries if entry.error_code
        ]
        if not faults:
            return None
        if time.monotonic() > deadline:
            return faults[0]
        time.sleep(1.0)


@contextmanager
def _theirs(directory: Path) -> Iterator[Endpoint]:
    with kafka_cluster(directory, heap=_HEAP) as brokers:
        bootstrap = Endpoint(brokers[0].port)
        request = _QUOTAS.AlterClientQuotasRequest(
            entries=(
                _QUOTAS.EntryData(
                    entity=(_QUOTAS.EntityData(entity_type="user", entity_name="ANONYMOUS"),),
                    ops=(
                        _QUOTAS.OpData(
                            key="producer_byte_rate", value=float(T_BYTES_PER_S // BROKERS), remove=False
                        ),
                    ),
                ),
            ),
            validate_only=False,
        )
        refused = _refused(bootstrap, request)
        if refused is not None:
            raise RuntimeError(f"Apache Kafka did not take the user quota: {refused}")
        yield bootstrap


def run(rounds: int, say: Say) -> dict[str, object]:
    """Both policies of ours and, where there is Java, Apache Kafka."""
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(_ROOM_BYTES)) as name, ExitStack() as running:
        directory = Path(name)
        say("a stack of three brokers")
        ours = running.enter_context(_ours(directory / "stack"))
        peers = [Peer(f"portico {policy}", ours, policy) for policy in _POLICIES]
        if missing_tools():
            say(f"Apache Kafka is left out: {', '.join(missing_tools())} missing")
        else:
            say("three brokers of Apache Kafka")
            peers.append(Peer("kafka T/3 each", running.enter_context(_theirs(directory / "kafka"))))
        for bootstrap in dict.fromkeys(peer.bootstrap for peer in peers):
            create_topic(bootstrap, _TOPIC, PARTITIONS)
        return Bench(directory / "stack", say).turns(peers, rounds)
