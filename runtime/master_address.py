"""Where the elected quota master answers: followed in the metadata tree, or told by one that is not it."""

import asyncio
import contextlib
from typing import Final

import msgspec

from contracts.masters import MASTER_PATH, decode_registration
from contracts.tree import Tree, TreeUnavailable
from runtime.internal_http import InternalError
from runtime.logs import get_logger

_log = get_logger(__name__)


class WatchedAddress:
    """For processes with the tree. While no master is elected it stays what it was."""

    def __init__(self, tree: Tree, fallback_url: str) -> None:
        """`fallback_url` serves until a master has been seen in the tree, where there may be none ever."""
        self.url = fallback_url
        self._tree = tree
        self._changed = asyncio.Event()

    def failed(self, error: InternalError) -> None:
        """The tree says it when another is elected."""

    async def run(self) -> None:
        """Follow until cancelled. The tree is started already."""
        end_watch = self._tree.watch_data(MASTER_PATH, self._changed.set)
        try:
            self._changed.set()
            while True:
                await self._changed.wait()
                self._changed.clear()
                with contextlib.suppress(TreeUnavailable):  # the watch calls again after the reconnect
                    await self._look()
        finally:
            end_watch()

    async def _look(self) -> None:
        node = await self._tree.get(MASTER_PATH)
        registration = None if node is None else decode_registration(node.data)
        if registration is not None and registration.url != self.url:
            _log.info("another quota master", url=registration.url, before=self.url)
            self.url = registration.url


class _NotElected(msgspec.Struct, frozen=True):
    """The part of the refusal's problem that names the elected one."""

    master: str | None = None


class ReferredAddress:
    """For processes without the tree: the control plane's own master, or the one that it names."""

    def __init__(self, control_url: str) -> None:
        self.url = control_url
        self._control_url: Final = control_url

    def failed(self, error: InternalError) -> None:
        """Go where the refusal sends us, and back to the control plane when nobody answers there."""
        url = self._control_url
        with contextlib.suppress(msgspec.MsgspecError):
            url = msgspec.json.decode(error.body, type=_NotElected).master or url
        if url != self.url:
            _log.info("another quota master", url=url, before=self.url)
            self.url = url
