"""A broker or gateway on a loop of its own, every call of which is counted: work is counted, not timed."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from types import FrameType
from typing import Any, Final

from runtime.clock import Clock
from runtime.machine import Machine

SWITCHES: Final = ("register", "modify", "unregister")
"""What makes epoll look at a socket, or leave it."""


def machine_of(step_ns: int) -> Machine:
    """One where each reading of the finest clock takes as long, however busy the real one is."""
    readings = count(step=step_ns)
    return Machine(clock=Clock(monotonic_ns=readings.__next__))  # no call of Python to be counted


class CallCounter:
    """Counts what the loop's thread calls; of Python's functions, those that `is_counted` wants."""

    def __init__(self, is_counted: Callable[[str], bool]) -> None:
        self.calls: Counter[str] = Counter()
        self._is_counted = is_counted

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            if self._is_counted(frame.f_code.co_filename):
                self.calls["python"] += 1
        elif event == "c_call":
            self.calls[function.__name__] += 1


class CountedLoop(threading.Thread):
    """`served` serves while it is entered, and says at which port."""

    def __init__(
        self,
        served: Callable[[], AbstractAsyncContextManager[int]],
        is_counted: Callable[[str], bool] = lambda _path: True,
    ) -> None:
        super().__init__()
        self._served = served
        self._serves, self._ending = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0
        self.counter = CallCounter(is_counted)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with self._served() as self.port:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(sys.setprofile, self.counter)
            self._serves.set()
            await self._ending.wait()
            sys.setprofile(None)

    def settle(self) -> None:
        """Until what was under way is through."""
        assert self._loop is not None
        through = threading.Event()
        self._loop.call_soon_threadsafe(through.set)
        assert through.wait(60)

    def __enter__(self) -> "CountedLoop":
        self.start()
        assert self._serves.wait(60)
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ending.set)
        self.join(60)
