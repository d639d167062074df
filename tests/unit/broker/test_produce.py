"""What the answer to a Produce waits for: the followers, the disk, the request's own timeout."""

import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers import produce
from broker.requests.login import Login
from broker.requests.metrics import BrokerMetrics
from broker.scanning.messages import Converted
from tests.integration.broker.raw import batch, produce_body
from tests.unit.replication.world import CONFIG, TOPIC, Call, Node, World
from traffic.point import TrafficPoint
from wire.build import build
from wire.codec import (
    decode_response,
    framed_request,
    is_flexible,
    parse_request_header,
    request_class,
)
from wire.edits import edit_produce_request
from wire.scope import Scope

_VERSION = 8


class _Call(Call):
    """One Produce request, whose answer is kept."""

    def __init__(self, node: Node, frame: bytes) -> None:
        self.answers: list[bytes] = []
        super().__init__(node, 9, frame, self.answers.append)
        self.channel: Any = SimpleNamespace(
            login=Login("192.0.2.1", is_open=True),
            turn=None,
            request_throttle_ms=lambda: 0,
            told_throttle=lambda *_: None,
        )

    def hold_frame(self) -> memoryview:
        return self.request

    def release(self) -> None:
        """The next request of the connection may be read."""

    def reply_parts(self, parts: list[Any], mute: object = None) -> None:
        super().reply_parts(parts)

    def errors(self) -> list[str]:
        (answer,) = self.answers
        _, response = decode_response(answer[4:], 0, _VERSION)
        return [each.error_code.name for each in response.responses[0].partition_responses]


class _Shell:
    """What the handler asks of the broker: the node's replicas, and a disk and timers that the test moves."""

    def __init__(self, node: Node) -> None:
        self.replicas = node.replicas
        self.metrics = BrokerMetrics()
        self.traffic = TrafficPoint(point="broker-1", node_id=1, cluster_id="c", boot_id="b", now_ms=0)
        self.flushes: list[Callable[[bool], None]] = []
        self.flusher = SimpleNamespace(sync=lambda _logs, done: self.flushes.append(done))
        self.timers: list[Callable[[], None]] = []
        self.failed: list[object] = []
        self.later = SimpleNamespace(after_ms=self.call_later, guarded=self.guarded, in_turn=self.in_turn)
        self.looks: list[Callable[[Any], None]] = []
        self.scanner = SimpleNamespace(submit=lambda _instance_id, _job, done: self.looks.append(done))

    def now_ms(self) -> int:
        return 0

    def epoch_ms(self) -> int:
        return int(time.time() * 1000)

    def guarded(self, _call: object, go_on: Callable[[], object]) -> None:
        try:
            go_on()
        except Exception as error:  # noqa: BLE001 - as the shell does
            self.failed.append(error)

    def in_turn(self, call: _Call, go_on: Callable[[], object]) -> None:
        if not call.is_gone:
            self.guarded(call, go_on)

    def call_later(self, _delay_ms: int, callback: Callable[[], None]) -> Any:
        self.timers.append(callback)
        return SimpleNamespace(cancel=lambda: self.timers.remove(callback))


def _call(node: Node, version: int, body: bytes) -> _Call:
    head = (0).to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\xff\xff"
    return _Call(node, (len(head) + len(body)).to_bytes(4, "big") + head + body)


def _produced(tmp_path: Path) -> tuple[World, _Shell, _Call]:
    """A Produce with acks=all at a leader of two followers, of a topic with flush.messages=1."""
    world = World(tmp_path)
    world.elect(1)
    node = world.nodes[1]
    node.partition.log.reconfigure(replace(CONFIG, flush_messages=1))
    shell = _Shell(node)
    call = _call(node, _VERSION, produce_body(TOPIC, 0, batch(b"one")))
    produce.handle(call, shell)  # type: ignore[arg-type]
    assert len(shell.flushes) == len(shell.timers) == 1
    return world, shell, call


def test_the_answer_waits_for_the_disk_and_for_the_followers(tmp_path: Path) -> None:
    world, shell, call = _produced(tmp_path)
    world.settle()
    assert not call.answers
    shell.flushes[0](False)
    assert call.errors() == ["none"]
    assert not shell.timers and not shell.failed


def test_a_commit_after_the_timeout_while_the_disk_is_still_busy(tmp_path: Path) -> None:
    """The records were given up: that they are committed after all is no news to their producer."""
    world, shell, call = _produced(tmp_path)
    shell.timers[0]()
    assert not call.answers, "the disk has not answered"
    world.settle()
    assert world.nodes[1].partition.high_watermark == 1
    assert not shell.failed, "the connection stays open"
    shell.flushes[0](False)
    assert call.errors() == ["request_timed_out"]


def test_nothing_more_of_an_old_clients_frame_is_read_when_the_client_is_gone(tmp_path: Path) -> None:
    """Its messages come back from the process that converts them; the frame's memory is others' by now."""
    world = World(tmp_path)
    world.elect(1)
    node = world.nodes[1]
    shell = _Shell(node)
    name = len(TOPIC).to_bytes(2, "big") + TOPIC.encode()
    two = struct.pack(">hii", -1, 5_000, 1) + name + struct.pack(">iiiii", 2, 0, 0, 0, 0)
    call = _call(node, 2, two)
    produce.handle(call, shell)  # type: ignore[arg-type]
    (converted,) = shell.looks
    call.is_gone = True
    converted(Converted(batch(b"one")))
    assert len(shell.looks) == 1
    assert node.partition.log.offsets.log_end_offset == 0
    assert not call.answers and not shell.failed


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_what_crossed_the_tenants_socket_is_charged(
    tmp_path: Path, version: int, transactional_id: str | None
) -> None:
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": b"r" * 200}]} for name in ("a", "b" * 120)
    ]
    fields = {"acks": -1, "transactional_id": transactional_id, "topic_data": topics}
    frame = framed_request(build(request_class(0, version), fields), 1, "client")
    world = World(tmp_path)
    world.elect(1)
    node = world.nodes[1]
    edit = edit_produce_request(memoryview(frame), Scope("iaaaaaaaaaaa"))
    call = _Call(node, b"".join(map(bytes, edit.buffers)))
    charged: list[int] = []
    call.channel.login = SimpleNamespace(
        payer=SimpleNamespace(
            charge_produce=lambda size_bytes, *_: charged.append(size_bytes) or (0, None),
            refuse=lambda _reason: None,
        )
    )
    call.header = parse_request_header(call.request, is_flexible(0, version))
    call.reservation = None
    produce.handle(call, _Shell(node))  # type: ignore[arg-type]
    assert charged == [len(frame)]
