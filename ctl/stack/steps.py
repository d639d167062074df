"""What a start is waiting for, told while it waits: on one line of a terminal, as lines elsewhere."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TextIO

from ctl.stack.children import Child
from runtime.clock import monotonic_ms

PREFIX: Final = "portico: "
_STILL_AFTER_S: Final = 5.0
_CLEAR_LINE: Final = "\r\x1b[2K"


class Teller:
    """Lines for people on stderr, and to the command that started this one and goes on without it."""

    def __init__(self, stream: TextIO | None = None, greeting_fd: int = -1) -> None:
        self._stream = stream or sys.stderr
        self._greeting_fd = greeting_fd
        self._is_terminal = self._stream.isatty()
        self._is_line_open = False

    def say(self, text: str) -> None:
        """Something that stays to be read."""
        self._write(f"{PREFIX}{text}\n")

    def step(self, text: str) -> None:
        """What is waited for now. On a terminal the next line takes its place."""
        self._write(f"{PREFIX}{text}" + ("" if self._is_terminal else "\n"), is_open=self._is_terminal)

    def clear(self) -> None:
        """The waiting is over."""
        if self._is_line_open:
            self._write("")

    def greet(self, text: str) -> None:
        """The waiting has ended well. To whom started this: a terminal, or the command that goes on alone."""
        self.clear()
        if self._greeting_fd < 0:
            print(text, flush=True)
            return
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._greeting_fd, "w") as greeting:
            greeting.write(text)
        self._greeting_fd = -1

    def _write(self, text: str, *, is_open: bool = False) -> None:
        start = _CLEAR_LINE if self._is_line_open else ""
        self._is_line_open = is_open
        print(start + text, end="", file=self._stream, flush=True)
        if self._greeting_fd >= 0 and text:
            try:
                os.write(self._greeting_fd, text.encode())
            except OSError:  # whoever waited for it has gone
                self._greeting_fd = -1


async def until_all_serve(children: Iterable[Child], teller: Teller) -> None:
    """Wait until all serve, and say which. Raises: CommandError of the first that does not start."""
    began_ms = monotonic_ms()
    waiting = {child.spec.name for child in children}

    def seconds() -> str:
        return f"{(monotonic_ms() - began_ms) / 1000:.1f} s"

    async def one(child: Child) -> None:
        await child.until_ready()
        waiting.discard(child.spec.name)
        rest = f"; waiting for {named(waiting)}" if waiting else ""
        teller.step(f"{child.spec.name} serves after {seconds()}{rest}")

    teller.step(f"waiting for {named(waiting)}")
    every = asyncio.gather(*(one(child) for child in children))
    await told_again(every, lambda: teller.step(f"still waiting for {named(waiting)} after {seconds()}"))


async def told_again(awaited: Awaitable[Any], tell: Callable[[], None]) -> None:
    """Wait, and tell again each few seconds that one waits."""
    task = asyncio.ensure_future(awaited)
    try:
        while not (await asyncio.wait({task}, timeout=_STILL_AFTER_S))[0]:
            tell()
        task.result()
    finally:
        task.cancel()


def named(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; many of a kind as one: `gateway-0 to gateway-7`."""
    ordered = sorted(names, key=lambda name: (name.partition("-")[0], int(name.partition("-")[2] or 0)))
    groups: dict[str, list[str]] = {}
    for name in ordered:
        groups.setdefault(name.partition("-")[0], []).append(name)
    shown: list[str] = []
    for members in groups.values():
        shown += members if len(members) < 4 else [f"{len(members)} of {members[0]} to {members[-1]}"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
