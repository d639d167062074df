"""What every process does around its main coroutine: loop, signals, limits, run file."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from runtime.logs import get_logger
from runtime.notify import Notifier

_log = get_logger(__name__)
OTHERS: Final = 0o077
"""The permissions of everybody but the owner."""
_YOUNG_OBJECTS: Final = 10_000
"""Allocated in excess of those freed, before the young ones are looked through."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on uvloop until it ends; SIGTERM and SIGINT cancel it so that it can clean up."""
    if __debug__ is False:
        raise SystemExit("portico does not run under python -O: its assertions guard stored data")
    own_files_only()
    raise_file_limit()
    collect_seldom()
    faulthandler.enable()  # a process that hangs is ended by SIGABRT: then its log says where
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        contextlib.suppress(asyncio.CancelledError),
    ):
        runner.run(_until_signal(main))


def own_files_only() -> None:
    """What this process and its children write is for its own user: tenants' records, keys, logs."""
    os.umask(OTHERS)


def close_to_others(directory: Path) -> None:
    """Let nobody else into a directory, whatever an earlier start left readable below it. Where it is
    somebody else's that is logged, and `portico doctor` says so, too. One that all users share, such as
    /tmp, is left as it is."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & OTHERS or mode & stat.S_ISVTX:
        return
    try:
        directory.chmod(mode & ~OTHERS)
    except PermissionError:
        _log.warning("others may read our files: only the owner can change that", directory=str(directory))


def collect_seldom() -> None:
    """Modules stay: looking through them for garbage holds everything up for 30 ms each time."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


async def _until_signal(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main())
    asked = False

    def end() -> None:
        nonlocal asked
        if not asked:  # again would cut the cleaning up short
            asked = True
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    beats = asyncio.ensure_future(Notifier().beat())
    try:
        await task
    finally:
        beats.cancel()


def raise_file_limit() -> int:
    """Raise RLIMIT_NOFILE to the hard limit and return it: each connection costs two sockets."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def write_json(path: Path, value: Any, *, mode: int = 0o600) -> None:
    """Replace a small JSON file atomically."""
    write_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n", mode=mode)


def write_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a small file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.chmod(mode)
    temporary.replace(path)


def write_run_file(path: Path, values: dict[str, Any]) -> None:
    """Tell the supervisor that this process serves: its pid and what it has bound."""
    write_json(path, {"pid": os.getpid(), **values})


def read_secret(path: Path | None) -> str | None:
    """The deployment's secret, or None when no file is configured.

    Raises: SystemExit with a sentence when the file is unreadable or empty.
    """
    if path is None:
        return None
    try:
        secret = path.read_text().strip()
    except OSError as error:
        raise SystemExit(f"cannot read the deployment's secret {path}: {error.strerror}") from error
    if not secret:
        raise SystemExit(f"the deployment's secret {path} is empty")
    return secret
