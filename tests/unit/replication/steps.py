"""What the controller commands, carried out in one go."""

from collections.abc import Generator
from typing import TypeVar

from broker.storage.jobs import CreationJob

Result = TypeVar("Result")


def carried_out(steps: Generator[CreationJob | None, None, Result]) -> Result:
    """What the command's answer is once all its steps are done."""
    while True:
        try:
            job = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if job is not None:
            job.run()
