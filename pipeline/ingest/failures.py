"""What a failed Spark action was about, from the exceptions inside the JVM."""

import re
from typing import Any, Final, NamedTuple

_CAUSES_MAX: Final = 20
_TIME: Final = re.compile(r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value")


class UnreadableTime(NamedTuple):
    """A record whose time is outside what Spark's source can hold."""

    topic: str
    partition: int
    offset: int


def is_from_spark(error: BaseException) -> bool:
    """Whether an exception came out of PySpark or the JVM behind it."""
    return type(error).__module__.startswith(("pyspark", "py4j"))


def is_from_store(error: BaseException) -> bool:
    """Whether deltalake or obstore, whose exceptions know no package, or the store behind them failed."""
    modules = {kind.__module__ for kind in type(error).__mro__}
    return bool({"_internal", "obstore.exceptions"} & modules) or str(error).startswith("Generic ")


def is_interrupted(error: BaseException) -> bool:
    """Whether a signal is behind it: what Spark is told on its way up may fail, and takes its place."""
    before: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if before is None or isinstance(before, KeyboardInterrupt):
            break
        before = before.__context__
    return isinstance(before, KeyboardInterrupt)


def messages(error: BaseException) -> list[str]:
    """Messages of an exception of Spark and all its causes in the JVM, outermost first."""
    found = [str(error)]
    if stack_trace := getattr(error, "getStackTrace", None):  # a Spark Connect server's text of them
        lines = (stack_trace() or "").splitlines()
        found += [line.split(": ", 2)[-1] for line in lines if line.startswith("Caused by: ")]
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None and len(found) < _CAUSES_MAX:
        found.append(str(cause.getMessage()))
        cause = cause.getCause()
    return found


def unreadable_time(error: BaseException) -> UnreadableTime | None:
    """The record that Spark's source refused, or None where that was not the reason."""
    for message in messages(error):
        if found := _TIME.search(message):
            return UnreadableTime(found[1], int(found[2]), int(found[3]))
    return None


def reason(error: BaseException) -> str:
    """One line for people: the innermost message."""
    lines = [line.strip() for line in messages(error)[-1].splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
