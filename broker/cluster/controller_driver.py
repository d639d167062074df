"""Carrying out the core's effects against a tree and the brokers, one event after the other."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from broker.cluster.controller_channel import Channels
from broker.cluster.state_change_log import StateChangeLog
from broker.controller.core import ControllerCore
from broker.controller.effects import (
    Answer,
    Commit,
    Connect,
    Effect,
    ListChildren,
    Note,
    Read,
    Resign,
    Send,
    Unwatch,
    Watch,
    WatchKind,
)
from broker.controller.events import Changed, Event, Resigned
from contracts.tree import Tree, TreeUnavailable
from runtime.logs import get_logger

_log = get_logger(__name__)


class Driver:
    """The event queue. `answered` gets the results of calls, `failed` says that the term has to end."""

    def __init__(
        self,
        core: ControllerCore,
        tree: Tree,
        channels: Channels,
        state_changes: StateChangeLog,
        *,
        answered: Callable[[int, Any], None],
        failed: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._now_ms = now_ms
        self._core = core
        self._tree = tree
        self._channels = channels
        self._state_changes = state_changes
        self._answered = answered
        self._failed = failed
        self._events: deque[Event] = deque()
        self._changed: set[str] = set()
        """Paths whose change waits in the queue: once is enough."""
        self._wake = asyncio.Event()
        self._watches: dict[str, Callable[[], None]] = {}
        self._term = 0
        """Grows when a term begins or ends: what was begun in an earlier one stops."""

    def post(self, event: Event) -> None:
        """Handle an event after those posted before."""
        if isinstance(event, Changed):
            if event.path in self._changed:
                return
            self._changed.add(event.path)
        self._events.append(event)
        self._wake.set()

    def end_term(self) -> None:
        """The office is lost: nothing more is done in its name, whatever waits."""
        self._term += 1
        self._events.clear()
        self._changed.clear()
        for end in self._watches.values():
            end()
        self._watches.clear()
        self._channels.close()
        for _ in self._core.handle(Resigned(), self._now_ms()):
            raise AssertionError("resigning has no effects")

    async def run(self) -> None:
        """Handle events for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._events:
                event = self._events.popleft()
                if isinstance(event, Changed):
                    self._changed.discard(event.path)
                await self._handle(event)

    async def _handle(self, event: Event) -> None:
        term = self._term
        steps = self._core.handle(event, self._now_ms())
        result: Any = None
        try:
            while True:
                effect = steps.send(result)
                result = await self._carry_out(effect)
                if self._term != term:
                    steps.close()
                    return
        except StopIteration:
            await asyncio.sleep(0)
        except TreeUnavailable as error:
            steps.close()
            _log.warning("the controller lost its tree", cause="tree_unavailable", reason=str(error))
            self._fail(term)
        except Exception:  # noqa: BLE001 - a bug ends the term: the next one reads everything anew
            _log.exception("the controller failed", controller_event=type(event).__name__)
            self._fail(term)

    def _fail(self, term: int) -> None:
        if self._term == term:
            self._failed()

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Read(paths):
                return await self._tree.get_many(paths)
            case ListChildren(paths):
                return await self._tree.children_many(paths)
            case Commit(batches):
                return await self._tree.commit_many(batches)
            case Send(broker_id, request):
                self._state_changes.sent(broker_id, request)
                self._channels.push(broker_id, request)
            case Connect(brokers):
                self._channels.connect(brokers)
            case Watch():
                self._watch(effect)
            case Unwatch(path):
                self._watches.pop(path, lambda: None)()
            case Answer(call_id, result):
                self._answered(call_id, result)
            case Resign():
                self._failed()
            case Note(cause, fields):
                _log.info("controller", cause=cause.value, **fields)
        return None

    def _watch(self, watch: Watch) -> None:
        if watch.path in self._watches:
            return
        add = self._tree.watch_data if watch.kind is WatchKind.DATA else self._tree.watch_children
        self._watches[watch.path] = add(watch.path, lambda: self.post(Changed(watch.path)))
