"""The broker's side: jobs go to the scanning process, in order per instance, and their results come back.

The process starts with the first job and ends when there was none for a while. Of one instance only a few
jobs are there at a time, the others wait here without having been copied. A job whose process dies is tried
once more in another one; then it has failed, for it may be what kills.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, cast

import msgspec

from broker.scanning.messages import Answer, Failed, Frames, Job, Request, Result, framed
from runtime.logs import get_logger

_log = get_logger(__name__)
IN_PROCESS_MAX: Final = 4
"""Jobs of one instance that have been handed over."""
IDLE_S: Final = 300.0
_TRIES: Final = 2

Done: TypeAlias = Callable[[Result], None]
Ended: TypeAlias = Callable[[str, Answer], None]
"""Told of every job that has ended, with its instance id ("" for none)."""


class _Pending:
    __slots__ = ("done", "instance_id", "job", "tries")

    def __init__(self, instance_id: str, job: Job, done: Done) -> None:
        self.instance_id = instance_id
        self.job = job
        self.done = done
        self.tries = 0


class _Lane:
    """One instance's jobs here."""

    __slots__ = ("in_process", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Pending] = deque()
        self.in_process = 0


class Scanner:
    """Used on the loop's thread alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
        self._loop = loop
        self._ended = ended
        self._lanes: dict[str, _Lane] = {}
        self._in_process: dict[int, _Pending] = {}
        self._next_number = 1
        self._child: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._starting: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._decoder = msgspec.msgpack.Decoder(Answer)

    @property
    def waiting(self) -> int:
        """Jobs without a result."""
        return len(self._in_process) + sum(len(lane.waiting) for lane in self._lanes.values())

    def submit(self, instance_id: str | None, job: Job, done: Done) -> None:
        """Have a job done; `done` is called later, once, with its result."""
        name = instance_id or ""
        lane = self._lanes.setdefault(name, _Lane())
        lane.waiting.append(_Pending(name, job, done))
        self._hand_over(lane)

    def _hand_over(self, lane: _Lane) -> None:
        if self._transport is None:
            self._start()
            return
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        while lane.waiting and lane.in_process < IN_PROCESS_MAX:
            pending = lane.waiting.popleft()
            number = self._next_number
            self._next_number += 1
            lane.in_process += 1
            pending.tries += 1
            self._in_process[number] = pending
            self._transport.write(framed(Request(number, pending.instance_id, pending.job)))

    def received(self, answer_body: bytes) -> None:
        """The process has answered a job."""
        answer = self._decoder.decode(answer_body)
        pending = self._in_process.pop(answer.number)
        self._ended(pending.instance_id, answer)
        if isinstance(answer.result, Failed):
            _log.error("a look into records failed", reason=answer.result.message)
        self._left(pending)
        pending.done(answer.result)
        if not self._in_process and self._idle_timer is None and self._transport is not None:
            self._idle_timer = self._loop.call_later(IDLE_S, self._end_process)

    def _left(self, pending: _Pending) -> None:
        lane = self._lanes[pending.instance_id]
        lane.in_process -= 1
        if lane.waiting:
            self._hand_over(lane)
        elif not lane.in_process:
            del self._lanes[pending.instance_id]

    # -- the process -----------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._starting is None and not self._is_closed:
            self._starting = self._loop.create_task(self._started())

    async def _started(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._child = await asyncio.to_thread(_spawn, theirs)
            ours.setblocking(False)
            await self._loop.create_connection(lambda: _Link(self), sock=ours)
        except OSError as error:
            ours.close()
            _log.error("the scanning process cannot be started", reason=str(error))
            self._starting = None
            self._give_up("the scanning process cannot be started")
        finally:
            theirs.close()

    def connected(self, transport: asyncio.Transport) -> None:
        """The process can be spoken to."""
        self._transport = transport
        self._starting = None
        for lane in list(self._lanes.values()):
            self._hand_over(lane)

    def lost(self) -> None:
        """The process is gone, with what it had not answered."""
        self._transport = None
        child, self._child = self._child, None
        if child is not None:
            self._loop.run_in_executor(None, child.wait)
        if not self._in_process:
            return
        _log.error("the scanning process has ended", jobs=len(self._in_process))
        unanswered, self._in_process = list(self._in_process.values()), {}
        for pending in reversed(unanswered):
            lane = self._lanes[pending.instance_id]
            lane.in_process -= 1
            if pending.tries < _TRIES:
                lane.waiting.appendleft(pending)
        for pending in unanswered:
            if pending.tries >= _TRIES:
                pending.done(Failed("the scanning process has ended"))
        self._drop_empty_lanes()
        if self._lanes:
            self._start()

    def _give_up(self, reason: str) -> None:
        """Nobody can do what waits here."""
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            for pending in lane.waiting:
                pending.done(Failed(reason))

    def _drop_empty_lanes(self) -> None:
        self._lanes = {name: lane for name, lane in self._lanes.items() if lane.waiting or lane.in_process}

    def _end_process(self) -> None:
        """There was nothing to do for long."""
        self._idle_timer = None
        if self._transport is not None and not self._in_process:
            self._transport.close()

    def close(self) -> None:
        """The broker stops; jobs without a result never get one."""
        self._is_closed = True
        self._in_process.clear()
        self._lanes.clear()
        if self._starting is not None:
            self._starting.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._transport is not None:
            self._transport.close()


class _Link(asyncio.Protocol):
    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._scanner.connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            self._scanner.received(body)

    def connection_lost(self, _: Exception | None) -> None:
        self._scanner.lost()


def _spawn(peer: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "runtime.start", "broker.scanning.process"],
        stdin=peer.fileno(),
        start_new_session=True,  # Ctrl-C is for the broker, which ends us
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
