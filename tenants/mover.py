"""Carries moves out: one control process does, who holds the office. What was begun goes on after a death."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from contracts.specs import Engine
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.backend import groups, topics
from tenants.backend.cluster import Cluster
from tenants.backend.copy_groups import forget_transactions
from tenants.backend.copy_links import Links
from tenants.backend.copy_targets import CannotMove, remove
from tenants.move_copy import Copy, check
from tenants.rules.errors import Conflict, NotFound, Refused
from tenants.rules.model import Instance
from tenants.rules.moves import HOLD_MAX_MS, Event, Move, Phase, copy_rate, is_nearly_there
from tenants.store.engine import StoreFault
from tenants.store.shared_session import Office
from tenants.usecases.moves import Moves

_log = get_logger(__name__)
_LOOK_EVERY_S: Final = 0.5
_ACKNOWLEDGED_EVERY_S: Final = 0.01
_PATIENCE_S: Final = 3.0
"""After a failure."""
_TAKES_NOTHING: Final = {"max.message.bytes": "0"}
_SHUT_AGAIN_S: Final = 5.0
_SHUT_EVERY_S: Final = 60.0
"""So often it is looked for topics that came to be at an old copy."""
_ROUNDS: Final = 5
"""In a row, each of what was written during the one before."""
COPIES_MAX: Final = 2
"""Moves that are worked on at once; others wait for their turn."""


class Mover:
    """The background task."""

    def __init__(self, moves: Moves, cluster_of: Callable[[str], Awaitable[Cluster]], office: Office) -> None:
        self._moves = moves
        self._cluster_of = cluster_of
        self._office = office
        self._copies: dict[str, Copy] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shutting: dict[str, asyncio.Task[None]] = {}
        """By move, for as long as its old copy is kept."""

    async def run(self) -> None:
        """For ever."""
        try:
            while True:
                await asyncio.sleep(_LOOK_EVERY_S)
                if self._office.since_ms is None:
                    continue
                try:
                    found = await asyncio.to_thread(self._moves.to_work_on)
                except StoreFault:  # requests tell of it
                    continue
                self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}
                kept = {move.id for move in found if move.phase is Phase.SWITCHED}
                for key in self._shutting.keys() - kept:
                    self._shutting.pop(key).cancel()
                for move in found:
                    if move.phase is Phase.SWITCHED:
                        if move.id not in self._shutting:
                            self._shutting[move.id] = asyncio.create_task(self._shut(move))
                    elif move.id not in self._tasks and len(self._tasks) < COPIES_MAX:
                        self._tasks[move.id] = asyncio.create_task(self._carry(move), name=f"move {move.id}")
        finally:
            tasks = [*self._tasks.values(), *self._shutting.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for copy in self._copies.values():
                copy.close()

    async def _carry(self, move: Move) -> None:
        """Work on a move for some seconds."""
        try:
            match move.phase:
                case Phase.COPYING:
                    await self._copy(move)
                case Phase.SWITCHING:
                    await self._release(move, "the control plane was started anew while it switched")
                case Phase.CANCELLING:
                    await self._remove(move, move.target)
                case Phase.PURGING:
                    await self._remove(move, move.source)
                case _:
                    raise AssertionError(f"nobody works on what is {move.phase}")
        except CannotMove as refusal:
            self._drop(move)
            await asyncio.to_thread(self._moves.happens, move.id, Event.CANCEL, refusal.detail)
            _log.warning("an instance cannot be moved", move=move.id, reason=refusal.detail)
        except Refused as error:
            self._drop(move)
            if move.reason != error.detail:
                _log.warning("a move goes on later", move=move.id, reason=error.detail)
            await asyncio.to_thread(self._moves.note, move, reason=error.detail)
            await asyncio.sleep(_PATIENCE_S)
        except StoreFault as fault:
            _log.warning("a move goes on later", move=move.id, reason=fault.reason)
            await asyncio.sleep(_PATIENCE_S)
        except Exception:  # noqa: BLE001 - a bug costs one move some seconds, not the others
            self._drop(move)
            _log.exception("a move failed, and goes on later", move=move.id)
            await asyncio.to_thread(self._moves.note, move, reason="a fault of ours: see control's log")
            await asyncio.sleep(_PATIENCE_S)

    def _drop(self, move: Move) -> None:
        copy = self._copies.pop(move.id, None)
        if copy is not None:
            copy.close()

    # --- copying ----------------------------------------------------------------------------------

    async def _copy(self, move: Move) -> None:
        instance = await asyncio.to_thread(self._moves.instance, move)
        copy = self._copies.get(move.id)
        if copy is None:
            copy = self._copies[move.id] = await self._begin(move)
        copy.instance = instance
        if not copy.is_aligned:
            await copy.align()
        rate = copy_rate(instance.produce_rate_bytes_per_s)
        for _ in range(_ROUNDS):
            done = await copy.round()
            if not done.is_at_end or is_nearly_there(done.found_bytes, rate):
                break
        is_ready = done.is_at_end and is_nearly_there(done.found_bytes, rate)
        if is_ready and epoch_ms() >= move.retry_at_ms:
            reason = await asyncio.to_thread(self._moves.hindrance, move)
        else:
            is_ready, reason = False, self._why_it_waits(move)
        if reason not in (None, move.reason):
            _log.warning("a switch waits", move=move.id, reason=reason)
        await asyncio.to_thread(
            self._moves.note,
            move,
            reason=reason,
            copied_bytes=copy.sizes.copied_bytes,
            total_bytes=copy.sizes.total_bytes,
        )
        if is_ready and reason is None:
            await copy.align()  # what this takes is not taken from clients
            await copy.round()
            await self._switch(move, copy)

    @staticmethod
    def _why_it_waits(move: Move) -> str | None:
        """While a switch that was given up waits to be tried again, why it was."""
        return move.reason if move.tries and epoch_ms() < move.retry_at_ms else None

    async def check(self, instance: Instance, target: str, *, fills_gaps: bool) -> None:
        """Whether an instance could be moved, as far as is seen at once. Raises: Conflict, Unavailable."""
        links = [Links(await self._cluster_of(each), instance.id) for each in (instance.cluster_id, target)]
        try:
            await check(*links, fills_gaps=fills_gaps)
        except CannotMove as refusal:
            raise Conflict(refusal.detail) from refusal
        finally:
            for each in links:
                each.close()

    async def _begin(self, move: Move) -> Copy:
        instance = await asyncio.to_thread(self._moves.instance, move)
        source = Links(await self._cluster_of(move.source), instance.id)
        target = Links(await self._cluster_of(move.target), instance.id)

        async def note(copies: dict[str, str]) -> None:
            await asyncio.to_thread(self._moves.note, move, copies=copies)

        return Copy(source, target, instance, move.copies, note, fills_gaps=move.fills_gaps)

    async def _switch(self, move: Move, copy: Copy) -> None:
        """Have gateways hold the instance, copy what is left, and serve it from the target; or let go."""
        held = await asyncio.to_thread(self._moves.happens, move.id, Event.HOLD)
        if held is None:
            return  # cancelled meanwhile
        begun_ms = monotonic_ms()
        copy.doing = "waiting for gateways"
        try:
            async with asyncio.timeout(HOLD_MAX_MS / 1000):
                while late := await asyncio.to_thread(self._moves.unacknowledged, move.instance_id):
                    copy.doing = f"{', '.join(late)} must hold its clients first"
                    await asyncio.sleep(_ACKNOWLEDGED_EVERY_S)
                await copy.finish()
                copy.doing = "telling gateways"
                switched = await asyncio.to_thread(self._moves.switch, move.id)
        except TimeoutError:
            await self._release(move, f"{HOLD_MAX_MS} ms were over: {copy.doing}")
        except CannotMove:
            raise  # the cancellation lets go
        except Refused as refusal:
            await self._release(move, refusal.detail)
        except BaseException:
            self._moves.happens(move.id, Event.RELEASE, "the control plane stopped while it switched")
            raise
        else:
            self._drop(move)
            _log.warning(
                "an instance is served from another cluster",
                move=move.id,
                instance=move.instance_id,
                cluster=move.target,
                gap_ms=switched.gap_ms,
                took_ms=monotonic_ms() - begun_ms,
            )

    async def _release(self, move: Move, reason: str) -> None:
        self._drop(move)
        await asyncio.to_thread(self._moves.happens, move.id, Event.RELEASE, reason)
        _log.warning("a switch is given up, and tried again", move=move.id, reason=reason)

    # --- the copy that is left ---------------------------------------------------------------------

    async def _shut(self, move: Move) -> None:
        """Have an Apache Kafka refuse records for the copy it keeps: a gateway that was cut off before the
        switch, and goes on, would have them acknowledged where nobody reads them, also for topics that it
        makes meanwhile. Brokers of ours know where an instance is served."""
        shut: set[str] = set()
        reason = ""
        while True:
            try:
                cluster = await self._cluster_of(move.source)
                if cluster.engine is not Engine.APACHE:
                    return
                open_ = await cluster.left_of(move.instance_id) - shut
                if open_:
                    configs = dict.fromkeys(open_, _TAKES_NOTHING)
                    await topics.alter_configs_of(cluster, move.instance_id, configs)
                    _log.info("an old copy takes no records", move=move.id, topics=len(open_))
                    shut |= open_
                reason = ""
            except Refused as error:
                if reason != str(error):
                    reason = str(error)
                    _log.warning("an old copy still takes records", move=move.id, reason=reason)
            except Exception as error:  # noqa: BLE001 - a bug: the copy is looked at again
                reason = str(error)
                _log.exception("an old copy still takes records", move=move.id)
            await asyncio.sleep(_SHUT_AGAIN_S if reason else _SHUT_EVERY_S)

    # --- removing ---------------------------------------------------------------------------------

    async def _remove(self, move: Move, cluster_id: str) -> None:
        """One pass over the copy that has to go; done when nothing was left when it began."""
        self._drop(move)
        instance = await asyncio.to_thread(self._moves.instance, move)
        if instance.cluster_id == cluster_id:
            raise AssertionError("what an instance is served from is never removed")
        links = Links(await self._cluster_of(cluster_id), instance.id)
        try:
            found = await links.cluster.left_of(instance.id)
            for name in found:
                await remove(links, name)
            listed = await groups.listing(links.cluster, instance.id)
            for group in listed:
                try:
                    await groups.delete(links.cluster, instance.id, group.name)
                except NotFound:
                    continue
            await forget_transactions(links)
        finally:
            links.close()
        if not found and not listed:
            await asyncio.to_thread(self._moves.happens, move.id, Event.REMOVED, move.reason)
            _log.info("the other copy of an instance is removed", move=move.id, cluster=cluster_id)
