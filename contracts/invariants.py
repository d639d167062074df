"""Whether structures assert after every change what must be true of them, also where that takes a walk.

On in tests, in the simulation and in the brokers that tests start; off where processes serve. What costs a
comparison is always asserted.
"""

from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "PORTICO_CHECK_INVARIANTS"
"""In the environment of a process: 1 turns it on."""
are_checked = False


def check_if_asked(environment: Mapping[str, str]) -> None:
    """Turn it on where the environment says so."""
    global are_checked
    are_checked = environment.get(VARIABLE) == "1"
