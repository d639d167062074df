"""The console's side of decoding processes: each instance has its own, some at a time.

So what one tenant's schemas and records do to a process is that tenant's alone. A field at which a process
ends is not tried again, and the rest goes on in another one.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from contracts.registered_schemas import SchemaText
from runtime.logs import get_logger
from tenants.decoding.messages import LENGTH, Field, Job, Ready, Told, framed

T = TypeVar("T")
_log = get_logger(__name__)
PROCESSES_MAX: Final = 4
"""Decoding processes at once, over all instances: who has none waits for one that is idle."""
SCHEMAS_MAX: Final = 300
"""Schemas that one decoding process is sent; with more it begins anew."""
DEATHS_MAX: Final = 3
"""Processes that the schemas and fields of one step may end; what is left then is not decoded."""
PROCESSES_MAX_PER_TENANT: Final = 2
"""Decoding processes that work for one tenant at once: others find one that does not."""
IDLE_S: Final = 60.0
"""How long a decoding process waits for more."""
_SCHEMA_TAKES_TOO_MUCH: Final = "it takes more time or memory than there is for one schema"
_FIELD_TAKES_TOO_MUCH: Final = "it takes more time or memory than there is for one message"
_OTHERS_TAKE_TOO_MUCH: Final = "others in front of it take more time or memory than there is"
_NO_SCHEMA: Final = "its schema cannot be used: {}"


class _Process:
    """A child, and what it was sent."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._child, self._reader, self._writer = child, reader, writer
        self.schemas: set[str] = set()

    async def send(self, job: Job) -> None:
        self._writer.write(framed(job))
        await self._writer.drain()

    async def answer(self, kind: type[T]) -> T:
        """Raises: IncompleteReadError, ConnectionError: the process is gone."""
        head = await self._reader.readexactly(LENGTH.size)
        return msgspec.msgpack.decode(await self._reader.readexactly(LENGTH.unpack(head)[0]), type=kind)

    async def end(self) -> None:
        self._writer.transport.abort()
        await asyncio.to_thread(self.kill)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()


class _Seat:
    """An instance that decodes."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.works = False
        self.process: _Process | None = None
        self.problems: dict[str, str] = {}
        """Schemas that are none, or that end processes."""
        self.timer: asyncio.TimerHandle | None = None


def _given_up(seat: _Seat, field: Field) -> Told:
    problem = seat.problems.get(field.schema)
    return Told(None, _OTHERS_TAKE_TOO_MUCH if problem is None else _NO_SCHEMA.format(problem))


class Decoder:
    """All decoding processes."""

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}
        self._working = asyncio.Semaphore(PROCESSES_MAX)
        self._tenants: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._endings: set[asyncio.Task[None]] = set()

    async def decode(
        self,
        tenant: str,
        instance_id: str,
        schemas: Mapping[str, SchemaText],
        fields: Sequence[Field],
        masked: Sequence[str] = (),
    ) -> list[Told]:
        """Each field, as JSON or with why it is not. `schemas`: those that fields name, by their keys.

        A caller that gives up ends the process: what it does is not known.
        """
        assert len(schemas) <= SCHEMAS_MAX, "a registry tells fewer at once"
        async with self._seat(tenant, instance_id) as seat:
            told: list[Told] = []
            deaths = 0
            while len(told) < len(fields) and deaths < DEATHS_MAX:
                if not await self._send_schemas(instance_id, seat, schemas):
                    deaths += 1
                    continue
                process = await self._process(instance_id, seat)
                left = fields[len(told) :]
                usable = tuple(one for one in left if one.schema not in seat.problems)
                try:
                    await process.send(Job({}, usable, tuple(masked)))
                    await process.answer(Ready)
                    for one in left:
                        problem = seat.problems.get(one.schema)
                        told.append(
                            await process.answer(Told)
                            if problem is None
                            else Told(None, _NO_SCHEMA.format(problem))
                        )
                except (asyncio.IncompleteReadError, ConnectionError):
                    _log.info("a decoding process ended at a message", instance=instance_id)
                    told.append(Told(None, _FIELD_TAKES_TOO_MUCH))
                    deaths += 1
                    await self._end(seat)
            return told + [_given_up(seat, one) for one in fields[len(told) :]]

    async def check(self, tenant: str, instance_id: str, schema: SchemaText) -> str | None:
        """Why a schema cannot be used; None: it can."""
        async with self._seat(tenant, instance_id) as seat:
            await self._send_schemas(instance_id, seat, {"": schema})
            if seat.process is not None:
                seat.process.schemas.discard("")
            return seat.problems.pop("", None)

    async def _send_schemas(self, instance_id: str, seat: _Seat, schemas: Mapping[str, SchemaText]) -> bool:
        """One after the other, so that it is known at which the process ends: False, and that one is not sent
        again."""
        for key, schema in schemas.items():
            if key in seat.problems:
                continue
            process = await self._process(instance_id, seat)
            if key in process.schemas:
                continue
            if len(process.schemas) >= SCHEMAS_MAX:
                await self._end(seat)
                seat.problems.clear()
                return await self._send_schemas(instance_id, seat, schemas)
            try:
                await process.send(Job({key: schema}, (), ()))
                seat.problems |= (await process.answer(Ready)).problems
                process.schemas.add(key)
            except (asyncio.IncompleteReadError, ConnectionError):
                _log.info("a decoding process ended at a schema", instance=instance_id)
                if len(seat.problems) >= SCHEMAS_MAX:
                    seat.problems.clear()
                seat.problems[key] = _SCHEMA_TAKES_TOO_MUCH
                await self._end(seat)
                return False
        return True

    @asynccontextmanager
    async def _seat(self, tenant: str, instance_id: str) -> AsyncIterator[_Seat]:
        seat = self._seats.setdefault(instance_id, _Seat())
        own = self._tenants.setdefault(tenant, asyncio.Semaphore(PROCESSES_MAX_PER_TENANT))
        async with seat.turn, own, self._working:
            if seat.timer is not None:
                seat.timer.cancel()
            seat.works = True
            try:
                yield seat
            except BaseException:
                await self._end(seat)
                raise
            finally:
                seat.works = False
                loop = asyncio.get_running_loop()
                seat.timer = loop.call_later(IDLE_S, self._end_idle, instance_id, seat)

    async def _process(self, instance_id: str, seat: _Seat) -> _Process:
        if seat.process is None:
            await self._make_room()
            seat.process = await _started()
            # In the order of their use: the first is idle for longest.
            self._seats.pop(instance_id, None)
            self._seats[instance_id] = seat
        return seat.process

    async def _make_room(self) -> None:
        """End who is idle for longest, until those and all that work are few; a process may yet start."""
        while True:
            working = sum(one.works for one in self._seats.values())
            idle = [one for one in self._seats.values() if one.process is not None and not one.works]
            if not idle or working + len(idle) <= PROCESSES_MAX:
                return
            await self._end(idle[0])

    def _end_idle(self, instance_id: str, seat: _Seat) -> None:
        if seat.turn.locked():
            return  # it is given another while at its end
        if self._seats.get(instance_id) is seat:
            del self._seats[instance_id]
        ending = asyncio.get_running_loop().create_task(self._end(seat))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end(self, seat: _Seat) -> None:
        process, seat.process = seat.process, None
        if process is not None:
            await process.end()

    def close(self) -> None:
        """End them all; no loop is asked."""
        for seat in self._seats.values():
            if seat.timer is not None:
                seat.timer.cancel()
            if seat.process is not None:
                seat.process.kill()


async def _started() -> _Process:
    ours, theirs = socket.socketpair()
    with theirs:
        child = await asyncio.to_thread(_spawn, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    return _Process(child, reader, writer)


def _spawn(peer: socket.socket) -> "subprocess.Popen[bytes]":
    """Of the console's environment it is told nothing but where Python finds us."""
    return subprocess.Popen(
        [sys.executable, "-m", "runtime.start", "tenants.decoding.process"],
        stdin=peer.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )
