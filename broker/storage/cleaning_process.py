"""Compaction in a process of its own: it computes for seconds, and the broker's event loop must not wait.

The parent writes a task, the child answers with a result; both as MessagePack over pipes. The child dies with
its parent and touches nothing but `.cleaned` files.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from broker.log.cleaned_segment import remove_cleaned
from broker.log.cleaning import CleaningResult, CleaningStopped, CleaningTask, LogDamaged, clean

_POLL_S: Final = 0.2
_NICENESS: Final = 10


class _Answer(msgspec.Struct):
    result: CleaningResult | None = None
    damaged: str | None = None
    refused: tuple[int, str] | None = None
    """Of the operating system: errno and text."""


def clean_in_process(task: CleaningTask, should_stop: Callable[[], bool]) -> CleaningResult:
    """`clean`, elsewhere. Raises what it raises."""
    child = subprocess.Popen(
        [sys.executable, "-m", "runtime.start", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the broker, which ends us
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    try:
        answer = _converse(child, msgspec.msgpack.encode(task), should_stop)
    except BaseException:
        child.kill()
        child.communicate()
        _remove(task)
        raise
    if answer.result is not None:
        return answer.result
    if answer.damaged is not None:
        raise LogDamaged(answer.damaged)
    assert answer.refused is not None
    raise OSError(*answer.refused)


def _converse(child: "subprocess.Popen[bytes]", request: bytes, should_stop: Callable[[], bool]) -> _Answer:
    to_send: bytes | None = request
    while True:
        try:
            output, _ = child.communicate(to_send, timeout=_POLL_S)
            break
        except subprocess.TimeoutExpired:
            to_send = None
            if should_stop():
                raise CleaningStopped from None
    try:
        return msgspec.msgpack.decode(output, type=_Answer)
    except msgspec.DecodeError as error:
        raise OSError(f"a compaction ended with exit code {child.returncode}") from error


def _remove(task: CleaningTask) -> None:
    for segment in task.segments:
        remove_cleaned(Path(task.directory), segment.base_offset)


def main() -> None:
    """The child."""
    os.nice(_NICENESS)
    parent = os.getppid()
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=CleaningTask)
    try:
        answer = _Answer(clean(task, lambda: os.getppid() != parent))
    except LogDamaged as error:
        answer = _Answer(damaged=str(error))
    except CleaningStopped:
        return
    except OSError as error:
        answer = _Answer(refused=(error.errno or 0, error.strerror or str(error)))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
