"""Waiting for an event with a bound."""

import asyncio
import contextlib


async def wait_until(event: asyncio.Event, timeout_s: float | None) -> None:
    """Return when the event is set or the time is over.

    Not `asyncio.wait_for`: before Python 3.12 it swallows a cancellation that comes together with the
    event, and the task goes on for ever.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
