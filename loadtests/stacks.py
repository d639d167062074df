"""The stack that is loaded: one that runs, or one of the run's own, in a scratch directory, until it ends."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ctl.bench.servers import scratch_parent
from ctl.console_client import locate
from ctl.stack.layout import Layout, free_port
from ctl.stack.own_stack import is_running, started
from runtime.config import environment

_ROOM_BYTES: Final = 4 * 10**9


class Target(NamedTuple):
    """A stack."""

    url: str
    key: str
    """An operator's."""
    data_dir: Path | None
    """The data directory of a stack of this machine, whose processes can be looked at."""


@contextmanager
def target(data_dir: Path, *, own: bool, workers: int, backend: str | None = None) -> Iterator[Target]:
    """The stack that PORTICO_URL names, else the one on the data directory, else one of its own: with
    brokers of ours, or in front of an Apache Kafka."""
    if backend is None and not own and ("PORTICO_URL" in environment() or is_running(data_dir)):
        here = None if "PORTICO_URL" in environment() else data_dir
        yield Target(*locate(data_dir), here)
        return
    with tempfile.TemporaryDirectory(prefix="portico-load-", dir=scratch_parent(_ROOM_BYTES)) as name:
        scratch = Path(name)
        arguments = ("--console", f"127.0.0.1:{free_port()}", "--workers", str(workers))
        if backend is not None:
            arguments += ("--backend", backend)
        with started(scratch, *arguments, "--deletion-grace", "0"):
            stack = json.loads(Layout(scratch).stack_file.read_text())
            yield Target(str(stack["console"]), str(stack["api_key"]), scratch)
