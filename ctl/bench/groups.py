"""`bench groups`: members of consumer groups at one broker, of the new protocol (KIP-848) and classic ones.

Members do on the wire what a Java client's do: heartbeats when they are told to, or every 3 s in a classic
group. They fetch nothing and commit nothing. A classic leader divides evenly, which costs it nothing here.
The same at an Apache Kafka of one node with its usual properties, where that is asked for.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from ctl.bench import load, servers
from ctl.bench.apache_kafka import kafka_cluster
from ctl.bench.measure import Say, Spread, cpu_seconds
from ctl.kafka.cluster import Wish
from runtime.kafka_client import KafkaConnection
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import duration, milliseconds, request_class

_TOPIC: Final = "groups"
_PARTITIONS: Final = 1_000
_REBALANCED: Final = 100
"""Members of the group whose rebalances are timed."""
_BEAT_S: Final = 3.0
"""A Java client's heartbeat.interval.ms in a classic group."""
_SETTLE_S: Final = 300.0
_WATCHED_S: Final = 20.0
_CALL_S: Final = 120.0
_AGAIN_S: Final = 0.2
_ASKED_MAX: Final = 300
_NOT_YET: Final = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
_REBALANCE: Final = duration(60_000)


class Board:
    """Who owns what, as its members were told, and when the last one was given what is its own.

    Members of the new protocol own what nobody else does: once all is owned and evenly, no assignment is
    still to come, though some may have to hear yet that their epoch is another one. What a classic member
    was given counts in its generation only.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.owned: dict[int, tuple[int, int]] = {}
        """(generation, how many partitions) by member."""
        self.ids: dict[int, str] = {}
        self.settled = asyncio.Event()
        self.settled_at = 0.0

    def expect(self, members: int) -> None:
        """So many are in the group from now on."""
        self.expected = members
        self.settled.clear()

    def forget(self, member: int) -> None:
        """It has left; the others share what it had from now on."""
        del self.owned[member], self.ids[member]
        self.expect(len(self.owned))

    def tell(self, member: int, generation: int, partitions: int) -> None:
        """A member has been given something, in this generation; of the new protocol there is one, 0."""
        self.owned[member] = generation, partitions
        if len(self.owned) < self.expected or self.settled.is_set():
            return
        generations, counts = zip(*self.owned.values(), strict=True)
        is_even = max(counts) - min(counts) <= 1
        if is_even and sum(counts) == _PARTITIONS and len(set(generations)) == 1:
            self.settled_at = time.perf_counter()
            self.settled.set()


class Member(Protocol):
    """One client until it is cancelled."""

    def __call__(
        self, connection: KafkaConnection, group: str, number: int, board: Board
    ) -> Coroutine[None, None, None]:
        """Join and stay."""


async def new_member(connection: KafkaConnection, group: str, number: int, board: Board) -> None:
    """Of `group.protocol=consumer`."""
    shape = request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    known = {"group_id": group, "member_id": f"member-{number:04}"}
    changed: dict[str, object] = {"rebalance_timeout": _REBALANCE, "subscribed_topic_names": [_TOPIC]}
    changed["topic_partitions"] = []
    epoch = count = 0
    board.ids[number] = known["member_id"]
    while True:
        answer = await connection.call(
            build(shape, known | {"member_epoch": epoch} | changed), timeout_s=_CALL_S
        )
        if answer.error_code is not ErrorCode.none:
            raise RuntimeError(f"a heartbeat was refused: {answer.error_code} {answer.error_message}")
        epoch, changed = answer.member_epoch, {}
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
            count = sum(len(each.partitions) for each in owned)
            given = [{"topic_id": each.topic_id, "partitions": each.partitions} for each in owned]
            changed = {"topic_partitions": given}
        board.tell(number, 0, count)
        if not changed:
            await asyncio.sleep(milliseconds(answer.heartbeat_interval) / 1000)


async def classic_member(connection: KafkaConnection, group: str, number: int, board: Board) -> None:
    """Of `group.protocol=classic`, with the eager protocol."""
    member_id = ""
    beats = request_class(ApiKey.HEARTBEAT, 3)
    while True:
        join = {
            "group_id": group,
            "session_timeout": duration(45_000),
            "rebalance_timeout": _REBALANCE,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\6groups\xff\xff\xff\xff"}],
        }
        joined = await connection.call(build(request_class(ApiKey.JOIN_GROUP, 5), join), timeout_s=_CALL_S)
        member_id = board.ids[number] = joined.member_id
        if joined.error_code is not ErrorCode.none:
            continue
        of_group = {"group_id": group, "generation_id": joined.generation_id, "member_id": member_id}
        sync = build(request_class(ApiKey.SYNC_GROUP, 3), of_group | {"assignments": _divided(joined)})
        synced = await connection.call(sync, timeout_s=_CALL_S)
        if synced.error_code is not ErrorCode.none:
            continue
        board.tell(number, joined.generation_id, len(synced.assignment))
        fault = ErrorCode.none
        while fault is ErrorCode.none:
            await asyncio.sleep(_BEAT_S)
            fault = (await connection.call(build(beats, of_group), timeout_s=_CALL_S)).error_code


def _divided(joined: Any) -> list[dict[str, Any]]:
    """A leader's division: a byte for each partition."""
    count = len(joined.members)
    return [
        {"member_id": one.member_id, "assignment": bytes(len(range(at, _PARTITIONS, count)))}
        for at, one in enumerate(joined.members)
    ]


MEMBERS: Final[dict[str, Member]] = {"new": new_member, "classic": classic_member}


def _leaving(member: Member, group: str, member_id: str) -> Payload:
    of_group = {"group_id": group, "member_id": member_id}
    if member is classic_member:
        return build(request_class(ApiKey.LEAVE_GROUP, 1), of_group)
    return build(request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), of_group | {"member_epoch": -1})


class Group:
    """Its members, each with a connection and a task of its own."""

    def __init__(self, port: int, name: str, member: Member) -> None:
        self._port, self._name, self._member = port, name, member
        self.board = Board()
        self._connections: list[KafkaConnection] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def joined_by(self, members: int) -> float:
        """Seconds from when so many more begin to join until all have what is theirs."""
        fresh = [await KafkaConnection.open("127.0.0.1", self._port, timeout_s=60) for _ in range(members)]
        numbers = itertools.count(len(self._connections))
        self._connections += fresh
        self.board.expect(len(self._connections))
        started = time.perf_counter()
        self._tasks += [
            asyncio.create_task(self._member(one, self._name, next(numbers), self.board)) for one in fresh
        ]
        await self._settled()
        return self.board.settled_at - started

    async def left_by_one(self) -> float:
        """Seconds from when the last that came says that it leaves until the others have what was its own."""
        task, connection = self._tasks.pop(), self._connections.pop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        connection.close()
        number = len(self._connections)
        member_id = self.board.ids[number]
        self.board.forget(number)
        started = time.perf_counter()
        await self._leave(member_id)
        await self._settled()
        return self.board.settled_at - started

    async def _settled(self) -> None:
        waiting = asyncio.create_task(self.board.settled.wait())
        done, _ = await asyncio.wait(
            (waiting, *self._tasks), timeout=_SETTLE_S, return_when=asyncio.FIRST_COMPLETED
        )
        if waiting not in done:
            waiting.cancel()
            for task in done:
                task.result()
            raise RuntimeError(f"{self._name} did not settle in {_SETTLE_S:.0f} s")

    async def aclose(self) -> None:
        """Its members go, and say so: a group of before costs the next one nothing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections:
            connection.close()
        await asyncio.gather(*map(self._leave, self.board.ids.values()))

    async def _leave(self, member_id: str) -> None:
        connection = await KafkaConnection.open("127.0.0.1", self._port, timeout_s=60)
        await connection.call(_leaving(self._member, self._name, member_id), timeout_s=_CALL_S)
        connection.close()


@asynccontextmanager
async def _group(port: int, name: str, member: Member) -> AsyncIterator[Group]:
    await _coordinated(port, name)
    group = Group(port, name, member)
    try:
        yield group
    finally:
        await group.aclose()


async def _coordinated(port: int, group: str) -> None:
    """Wait until the broker coordinates the group: an Apache Kafka makes its topic of offsets only now."""
    connection = await KafkaConnection.open("127.0.0.1", port, timeout_s=60)
    find = build(request_class(ApiKey.FIND_COORDINATOR, 3), {"key": group, "key_type": 0})
    describe = build(request_class(ApiKey.DESCRIBE_GROUPS, 5), {"groups": [group]})
    for _ in range(_ASKED_MAX):
        found = await connection.call(find, timeout_s=_CALL_S)
        described = await connection.call(describe, timeout_s=_CALL_S)
        if found.error_code is ErrorCode.none and described.groups[0].error_code not in _NOT_YET:
            break
        await asyncio.sleep(_AGAIN_S)
    connection.close()


async def _rebalances(port: int, rounds: int) -> dict[str, object]:
    """Both protocols in turns: all members begin together, then one more comes to a group that has settled,
    and leaves it."""
    together: dict[str, list[float]] = {protocol: [] for protocol in MEMBERS}
    one_more: dict[str, list[float]] = {protocol: [] for protocol in MEMBERS}
    one_leaves: dict[str, list[float]] = {protocol: [] for protocol in MEMBERS}
    for turn in range(rounds):
        for protocol, member in MEMBERS.items():
            async with _group(port, f"rebalanced-{protocol}-{turn}", member) as group:
                together[protocol].append(await group.joined_by(_REBALANCED - 1))
                await asyncio.sleep(2 * _BEAT_S)
                one_more[protocol].append(await group.joined_by(1))
                await asyncio.sleep(2 * _BEAT_S)
                one_leaves[protocol].append(await group.left_by_one())
    return {
        what: {protocol: Spread.of(seconds) for protocol, seconds in taken.items()}
        for what, taken in (
            (f"{_REBALANCED - 1} begin together, s", together),
            ("one more joins, s", one_more),
            ("one leaves, s", one_leaves),
        )
    }


async def _heartbeats(server: servers.Server, members: int) -> dict[str, object]:
    """What a settled group costs the broker, in both protocols."""
    found: dict[str, object] = {}
    for protocol, member in MEMBERS.items():
        async with _group(server.port, f"settled-{protocol}", member) as group:
            settled_s = await group.joined_by(members)
            await asyncio.sleep(2 * _BEAT_S)
            before = cpu_seconds(server.pid)
            await asyncio.sleep(_WATCHED_S)
            used_s = cpu_seconds(server.pid) - before
            found[protocol] = {
                "until all had theirs, s": settled_s,
                "CPU us per member and second": used_s / members / _WATCHED_S * 1e6,
                "CPU share of a core": used_s / _WATCHED_S,
            }
    return found


def run(rounds: int, members: int, *, against_apache: bool, say: Say) -> dict[str, object]:
    """All measurements; see `report.py` for the table."""
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=servers.scratch_parent(10**9)) as name, ExitStack() as stopping:
        peers = {"": stopping.enter_context(servers.broker(Path(name)))}
        if against_apache:
            [kafka] = stopping.enter_context(kafka_cluster(Path(name) / "apache", Wish(brokers=1)))
            peers["Apache Kafka, "] = servers.Server(kafka.pid, kafka.port)
        for server in peers.values():
            load.create_topic(server.port, _TOPIC, _PARTITIONS)
        for peer, server in peers.items():
            case = f"{peer}{_REBALANCED} members, {_PARTITIONS:,} partitions"
            say(case)
            results[case] = asyncio.run(_rebalances(server.port, rounds))
            case = f"{peer}{members:,} members that have settled"
            say(case)
            results[case] = asyncio.run(_heartbeats(server, members))
    return results
