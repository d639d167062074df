"""What every program of Python has in common: the loop over the steps of a script."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

Step = dict[str, Any]
PADDING: Final = "x" * 100
"""Behind each value, so that every codec makes a batch smaller, and none is left out for being of no use."""


class LacksError(Exception):
    """The client has no such thing."""


class RefusedError(Exception):
    """By Kafka's name of the error."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def lacks(what: str) -> NoReturn:
    """Say so."""
    raise LacksError(what)


def value(step: Step, number: int) -> str:
    """Of one record."""
    return f"{step['prefix']}-{number}-{PADDING}"


def run(steps: Mapping[str, Callable[[Step], Any]], script: dict[str, Any]) -> None:
    """One line for each step, in order; what fails keeps no other from being tried."""
    for step in script["steps"]:
        try:
            told = {"result": steps[step["do"]](step)}
        except LacksError as error:
            told = {"lacks": str(error)}
        except RefusedError as error:
            told = {"error": error.name, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - said to the judge, who fails for it
            told = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(told), flush=True)


def script() -> dict[str, Any]:
    """What is asked for."""
    asked: dict[str, Any] = json.load(sys.stdin)
    return asked
