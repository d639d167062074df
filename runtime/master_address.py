"""Where the elected quota master answers, followed in the metadata tree."""

import asyncio
import contextlib

from contracts.masters import MASTER_PATH, decode_registration
from contracts.tree import Tree, TreeUnavailable
from runtime.logs import get_logger

_log = get_logger(__name__)


class MasterAddress:
    """The URL to report to. While no master is elected it stays what it was."""

    def __init__(self, tree: Tree, fallback_url: str) -> None:
        """`fallback_url` serves until a master has been seen in the tree, where there may be none ever."""
        self.url = fallback_url
        self._tree = tree
        self._changed = asyncio.Event()

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
