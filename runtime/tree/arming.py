"""ZooKeeper's watches fire once: this keeps those that somebody watches armed."""

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Exists, GetChildren
from kazoo.protocol.states import EventType

from runtime.tree.pure import Change, Kind
from runtime.tree.requests import under
from runtime.tree.watches import Watches

Done = Callable[[Any, Exception | None], None]


class Arming:
    """Arms watches on the current connection. All of it runs on the event loop.

    Invariant: a watch is armed again before its callbacks run, and requests keep their order on the
    connection, so whatever a callback's reader does not see yet fires the watch again.
    """

    def __init__(self, call: Callable[[Any, Done], None], watches: Watches, chroot: str) -> None:
        self._call = call
        self._watches = watches
        self._chroot = chroot
        self._armed: set[Change] = set()
        self._fire: dict[Change, Callable[[Any], None]] = {}

    def arm(self, kind: Kind, path: str) -> None:
        """Arm a watch unless it is."""
        change = Change(kind, path)
        if change in self._armed:
            return
        self._armed.add(change)
        if kind is Kind.CHILDREN:
            request = GetChildren(under(self._chroot, path), self._watcher(change))
            self._call(request, lambda _names, error: self._children_armed(change, error))
        else:
            self._arm_existence(change)

    def arm_all(self) -> None:
        """Arm everything that is watched on a new connection, which has no watches."""
        self._armed.clear()
        for change in self._watches.all():
            self.arm(change.kind, change.path)

    def _arm_existence(self, change: Change) -> None:
        request = Exists(under(self._chroot, change.path), self._watcher(change))
        self._call(request, lambda stat, error: self._existence_armed(change, stat, error))

    def _children_armed(self, change: Change, error: Exception | None) -> None:
        if isinstance(error, NoNodeError):  # such a node's children cannot be watched, its creation can
            self._arm_existence(change)
        elif error is not None:
            self._armed.discard(change)

    def _existence_armed(self, change: Change, stat: Any, error: Exception | None) -> None:
        if error is not None:
            self._armed.discard(change)
        elif change.kind is Kind.CHILDREN and stat is not None:  # it was created in between
            self._fired(change)

    def _watcher(self, change: Change) -> Callable[[Any], None]:
        """One function each time, so that kazoo keeps one."""

        def fire(event: Any) -> None:
            if event.type != EventType.NONE:
                self._fired(change)

        return self._fire.setdefault(change, fire)

    def _fired(self, change: Change) -> None:
        self._armed.discard(change)
        if self._watches.has(change):
            self.arm(change.kind, change.path)
            self._watches.notify([change])
        else:
            self._fire.pop(change, None)
