"""What the controller commands, carried out in one go."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def carried_out(steps: Generator[None, None, Result]) -> Result:
    """What the command's answer is once all its steps are done."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
