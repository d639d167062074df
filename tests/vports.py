"""Ranges of vports for stacks that run at once."""

import fcntl
import os
import random
import tempfile
import weakref
from pathlib import Path
from typing import Final

_FIRST: Final = 21_000
"""Above those that a stack with the default range takes first."""
_SIZE: Final = 200
_RANGES: Final = 40


class Vports:
    """A range that nobody else in these tests has, in any process, while this object lives: a stack may want
    a port back that it does not listen on meanwhile."""

    def __init__(self) -> None:
        for number in random.sample(range(_RANGES), _RANGES):
            path = Path(tempfile.gettempdir()) / f"portico-tests-{os.getuid()}-vports-{number}.lock"
            lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            weakref.finalize(self, os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            self.first = _FIRST + number * _SIZE
            return
        raise AssertionError("more stacks at once than there are ranges of ports")

    def __str__(self) -> str:
        """For `--vports`."""
        return f"{self.first}-{self.first + _SIZE - 1}"
