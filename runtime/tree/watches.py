"""Who watches what: callbacks by kind and path, and listeners to the session."""

from collections.abc import Callable, Iterable

from contracts.tree import SessionState
from runtime.logs import get_logger
from runtime.tree.pure import Change, Kind

_log = get_logger(__name__)

Callback = Callable[[], None]


class Watches:
    """Registered callbacks. A failing one is logged and disturbs no other."""

    def __init__(self) -> None:
        self._callbacks: dict[Change, list[Callback]] = {}
        self._listeners: list[Callable[[SessionState], None]] = []

    def add(self, kind: Kind, path: str, callback: Callback) -> Callback:
        """Register; returns what takes it back."""
        key = Change(kind, path)
        callbacks = self._callbacks.setdefault(key, [])
        callbacks.append(callback)

        def remove() -> None:
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks and self._callbacks.get(key) is callbacks:
                del self._callbacks[key]

        return remove

    def listen(self, listener: Callable[[SessionState], None]) -> None:
        """Tell of every change of the session."""
        self._listeners.append(listener)

    def has(self, change: Change) -> bool:
        """Whether anybody watches it."""
        return change in self._callbacks

    def all(self) -> list[Change]:
        """Everything that is watched."""
        return list(self._callbacks)

    def notify(self, changes: Iterable[Change]) -> None:
        """Call the callbacks of each change."""
        for change in changes:
            for callback in list(self._callbacks.get(change, ())):
                _guarded(callback)

    def tell(self, state: SessionState) -> None:
        """Call the listeners to the session."""
        for listener in list(self._listeners):
            _guarded(lambda listener=listener: listener(state))  # type: ignore[misc]


def _guarded(callback: Callback) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - the boundary where a callback's failure is reported
        _log.exception("a watch's callback failed")
