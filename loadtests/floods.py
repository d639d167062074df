"""Floods of instances, in a process of their own: six ways to ask for more than one bought.

    python -m loadtests.floods KIND --target HOST:PORT[/NAME] [--target ...]
                               --topic TOPIC --topics N --on S --off S --turns N

It says `ready`, and begins at the time that it then reads: epoch seconds, a line of its standard input.
Raw sockets, frames that are built before and one thread (gevent): a flood costs its own process as little as
it can. By default it runs when nobody else wants a processor, because a tenant's clients do not run on the
machine of the servers. Instances that are to get the same are flooded by one process: two would get what the
kernel gives to each. Where tenants share a cluster without anything before it, NAME is what each is known by:
its client id, and what its topics and groups begin with. A flood is bounded in connections and time, and
prints JSON: for each target what was asked, answered and refused, by turn.
"""

import argparse
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import gevent.monkey
import kio.schema.api_versions.v0.request as api_versions_v0
import kio.schema.join_group.v2.request as join_group_v2
import kio.schema.join_group.v4.request as join_group_v4
import kio.schema.leave_group.v1.request as leave_group_v1
import kio.schema.metadata.v4.request as metadata_v4
from kio.static.protocol import Payload

from ctl.bench.load import Client, Endpoint, fetch_frame, produce_frames, workload
from runtime.config import parse_host_port
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import duration, framed_request, request_class

# kio types its fields with refined integers; plain ones are what it encodes
_API_VERSIONS: Any = api_versions_v0
_JOIN: Any = join_group_v2
_JOIN_WITH_ID: Any = join_group_v4
_LEAVE: Any = leave_group_v1
_METADATA: Any = metadata_v4

RECORD_BYTES: Final = 1000
FETCH_BYTES: Final = 1_000_000
_WINDOW: Final = 32
_BEATS: Final = 20
"""Heartbeats of a member before it leaves."""
_SHARED_BY: Final = 8
"""Connections whose members are in the same groups."""
_GROUPS: Final = 250
"""That each connection takes in turns."""
_ANSWER_S: Final = 60.0


class Kind(StrEnum):
    """What is asked."""

    PRODUCE = "produce"
    """Requests of one record each, as many as are taken."""
    METADATA = "metadata"
    """All topics of the instance, of which there are many."""
    RECONNECT = "reconnect"
    """A new connection for every request."""
    REBALANCE = "rebalance"
    """Members that join a group and leave it at once."""
    MEMBERS = "members"
    """Members that are given an id, and leave before they have joined: no timer has a part."""
    CONSUMER_GROUPS = "consumer-groups"
    """Members of a thousand consumer groups (KIP-848): they join by a pattern, are heard of without a pause,
    and leave."""
    HEARTBEATS = "heartbeats"
    """The same of who stays: no timer has a part."""
    COLD_READS = "cold-reads"
    """A log from its start, again and again."""
    SHORT_READS = "short-reads"
    """The same by a tenth with each request."""


CONNECTIONS: Final = {
    Kind.PRODUCE: 16,
    Kind.METADATA: 32,
    Kind.RECONNECT: 16,
    Kind.REBALANCE: 32,
    Kind.MEMBERS: 32,
    Kind.CONSUMER_GROUPS: 32,
    Kind.HEARTBEATS: 32,
    Kind.COLD_READS: 16,
    Kind.SHORT_READS: 16,
}


class Priority(StrEnum):
    """When the process gets a processor."""

    IDLE = "idle"
    """When nobody else wants it (SCHED_IDLE)."""
    NORMAL = "normal"
    """The bounds for everybody, where other things run that never rest."""


class Turn(NamedTuple):
    """When a flood is on, by the monotonic clock."""

    start_s: float
    end_s: float


class Tenant(NamedTuple):
    """Who is polite, or floods."""

    endpoint: Endpoint
    prefix: str = ""
    """What names begin with, of its topics and groups; empty where it has names of its own."""

    @property
    def target(self) -> str:
        """As a flood is told of it."""
        address = f"{self.endpoint.host}:{self.endpoint.port}"
        return f"{address}/{self.endpoint.client_id}" if self.prefix else address


def tenant_of(target: str) -> Tenant:
    """What `Tenant.target` tells. Raises: ValueError."""
    address, _, name = target.partition("/")
    host, port = parse_host_port(address)
    return Tenant(Endpoint(port, None, host, client_id=name or "flood"), name and f"{name}.")


class Tally:
    """What one turn did, over all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts = {"requests": 0, "sent_bytes": 0, "received_bytes": 0, "connections": 0, "cut": 0}

    def add(self, **counts: int) -> None:
        """Counts grow."""
        with self._lock:
            for name, count in counts.items():
                self.counts[name] += count


class Flood:
    """One kind at one address."""

    def __init__(self, kind: Kind, tenant: Tenant, topic: str, topics: int) -> None:
        """`topics`: how many more the tenant has (`topic_name`). Metadata is asked for all of them."""
        self._endpoint, self._prefix = tenant.endpoint, tenant.prefix
        client_id = tenant.endpoint.client_id
        own = tenant.prefix + topic
        self._produce = produce_frames(own, workload(RECORD_BYTES), 1, client_id=client_id)[0]
        fetch = fetch_frame(own, 0, FETCH_BYTES, client_id=client_id)
        short_fetch = fetch_frame(own, 0, FETCH_BYTES // 10, client_id=client_id)
        self._versions = framed_request(_API_VERSIONS.ApiVersionsRequest(), 1, client_id)
        named = [own, *(topic_name(own, number) for number in range(topics))] if tenant.prefix else None
        metadata = _metadata_frame(named, client_id)
        self._once: dict[Kind, Callable[[Turn, Tally, int], None]] = {
            Kind.PRODUCE: lambda turn, tally, _: self._pipelined(turn, tally, self._produce),
            Kind.METADATA: lambda turn, tally, _: self._pipelined(turn, tally, metadata),
            Kind.COLD_READS: lambda turn, tally, _: self._pipelined(turn, tally, fetch, window=1),
            Kind.SHORT_READS: lambda turn, tally, _: self._pipelined(turn, tally, short_fetch, window=1),
            Kind.RECONNECT: self._reconnect,
            # every join and every leave makes all the others of the group join again
            Kind.REBALANCE: partial(self._join_and_leave, join=_JOIN),
            # who joins without an id is told one at once (KIP-394), and is pending until it leaves
            Kind.MEMBERS: partial(self._join_and_leave, join=_JOIN_WITH_ID),
            Kind.CONSUMER_GROUPS: partial(self._beat, leaves=True),
            Kind.HEARTBEATS: partial(self._beat, leaves=False),
        }
        self._kind = kind

    def run(self, turn: Turn) -> dict[str, int]:
        """One turn, over all its connections."""
        tally = Tally()
        threads = [
            threading.Thread(target=self._until_end, args=(turn, tally, number), daemon=True)
            for number in range(CONNECTIONS[self._kind])
        ]
        time.sleep(max(0.0, turn.start_s - time.monotonic()))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, turn.end_s - time.monotonic()) + 0.5)
        return dict(tally.counts)

    def _until_end(self, turn: Turn, tally: Tally, number: int) -> None:
        while time.monotonic() < turn.end_s:
            try:
                self._once[self._kind](turn, tally, number)
            except OSError:
                tally.add(cut=1)
                time.sleep(0.01)

    def _connected(self, turn: Turn, tally: Tally) -> Client:
        client = Client(self._endpoint)
        client.socket.settimeout(min(_ANSWER_S, max(0.05, turn.end_s - time.monotonic())))
        tally.add(connections=1)
        return client

    def _pipelined(self, turn: Turn, tally: Tally, frame: bytes, window: int = _WINDOW) -> None:
        """One connection that always has a window of requests unanswered."""
        client = self._connected(turn, tally)
        try:
            client.socket.sendall(frame * window)
            while time.monotonic() < turn.end_s:
                size = client.receive()
                tally.add(requests=1, sent_bytes=len(frame), received_bytes=size + 4)
                client.socket.sendall(frame)
        finally:
            client.socket.close()

    def _reconnect(self, turn: Turn, tally: Tally, _number: int) -> None:
        client = self._connected(turn, tally)
        try:
            client.exchange(self._versions)
            size = client.exchange(self._produce)
            tally.add(requests=2, sent_bytes=len(self._produce), received_bytes=size + 4)
        finally:
            client.socket.close()

    def _join_and_leave(self, turn: Turn, tally: Tally, number: int, join: ModuleType) -> None:
        group = f"{self._prefix}storm-{number % 4}"
        client = self._connected(turn, tally)
        try:
            while time.monotonic() < turn.end_s:
                member_id = client.call(_join(group, join)).member_id
                client.call(_LEAVE.LeaveGroupRequest(group_id=group, member_id=member_id))
                tally.add(requests=2)
        finally:
            client.socket.close()

    def _beat(self, turn: Turn, tally: Tally, number: int, *, leaves: bool) -> None:
        client = self._connected(turn, tally)
        member_id = f"member-{number}"
        try:
            for at in itertools.count():
                of_group = {
                    "group_id": f"{self._prefix}swarm-{number // _SHARED_BY}-{at % _GROUPS}",
                    "member_id": member_id,
                }
                answer = client.call(
                    _beat(**of_group, member_epoch=0, subscribed_topic_regex=f"{self._prefix}.*", **_FIRST)
                )
                tally.add(requests=1)
                beats = 0
                while time.monotonic() < turn.end_s and (beats < _BEATS or not leaves):
                    answer = client.call(_beat(**of_group, member_epoch=answer.member_epoch))
                    tally.add(requests=1)
                    beats += 1
                if time.monotonic() >= turn.end_s:
                    return
                client.call(_beat(**of_group, member_epoch=-1))
                tally.add(requests=1)
        finally:
            client.socket.close()


_FIRST: Final = {
    "rebalance_timeout": duration(60_000),
    "topic_partitions": (),
}
"""What a member says when it joins: beside that it reads all topics of the tenant."""


def _beat(**fields: object) -> Payload:
    said: dict[str, object] = dict.fromkeys(
        ("instance_id", "rack_id", "topic_partitions", "subscribed_topic_names")
    )
    said |= {"subscribed_topic_regex": None, "server_assignor": None, "rebalance_timeout": duration(-1)}
    return build(request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), said | fields)


def topic_name(topic: str, number: int) -> str:
    """Of the others that a tenant has beside its first."""
    return f"{topic}-{number}"


def _metadata_frame(named: list[str] | None, client_id: str) -> bytes:
    """All that a tenant has: all there are, where it sees no others."""
    topics = None if named is None else tuple(_METADATA.MetadataRequestTopic(name=name) for name in named)
    return framed_request(
        _METADATA.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 1, client_id
    )


def _join(group: str, join: ModuleType) -> Any:
    return join.JoinGroupRequest(
        group_id=group,
        session_timeout=duration(6_000),
        rebalance_timeout=duration(500),
        member_id="",
        protocol_type="consumer",
        protocols=(join.JoinGroupRequestProtocol(name="range", metadata=b"\0" * 64),),
    )


def turns(start_s: float, on_s: float, off_s: float, count: int) -> list[Turn]:
    """Off first, then on, so many times; `start_s` and the answers are of one clock."""
    step = on_s + off_s
    return [Turn(start_s + n * step + off_s, start_s + (n + 1) * step) for n in range(count)]


def main() -> None:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.floods")
    parser.add_argument("kind", type=Kind, choices=list(Kind))
    parser.add_argument("--target", type=tenant_of, action="append", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--topics", type=int, default=0)
    parser.add_argument("--on", type=float, required=True)
    parser.add_argument("--off", type=float, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--priority", type=Priority, choices=list(Priority), default=Priority.IDLE)
    options = parser.parse_args()
    if options.priority is Priority.IDLE:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    socket.setdefaulttimeout(_ANSWER_S)
    floods = [Flood(options.kind, each, options.topic, options.topics) for each in options.target]
    print("ready", flush=True)
    start_s = time.monotonic() + float(sys.stdin.readline()) - time.time()
    done = [
        gevent.joinall([gevent.spawn(flood.run, turn) for flood in floods], raise_error=True)
        for turn in turns(start_s, options.on, options.off, options.turns)
    ]
    print(json.dumps([[each.value for each in by_turn] for by_turn in zip(*done, strict=True)]), flush=True)
    os._exit(0)  # connections that still wait for an answer are cut


if __name__ == "__main__":
    gevent.monkey.patch_all()
    main()
