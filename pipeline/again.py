"""A job that goes on until it is stopped."""

import time
from collections.abc import Callable
from typing import NoReturn


def again_and_again(step: Callable[[], str], every_s: float, say: Callable[[str], None]) -> NoReturn:
    """Do a step at most every so many seconds; it answers what was wrong but may be gone by the next one.

    A fault is said when it is new.
    """
    said = ""
    while True:
        started = time.monotonic()
        fault = step()
        if fault and fault != said:
            say(f"{fault} (trying again every {every_s:g} s)")
        said = fault
        time.sleep(max(0.0, every_s - (time.monotonic() - started)))
