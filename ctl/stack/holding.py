"""Who runs on a data directory: one supervisor at a time."""

import fcntl
from typing import TextIO

from ctl.errors import CommandError
from ctl.stack.layout import Layout
from runtime.process import close_to_others, write_run_file


def hold(layout: Layout, what: str, others_need: str = "") -> TextIO:
    """Take the data directory for as long as the file stays open. `what` runs on it, such as `a stack`.

    Raises: CommandError when another one runs on it.
    """
    try:
        layout.data_dir.mkdir(parents=True, exist_ok=True)
        close_to_others(layout.data_dir)
        lock = layout.lock_file.open("a")
    except OSError as error:
        raise CommandError(
            f"the data directory {layout.data_dir} cannot be written: {error.strerror}; "
            "name another with --data-dir"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise CommandError(
            f"{what} is already running on {layout.data_dir}: stop it, or name another --data-dir"
            + others_need
        ) from None
    write_run_file(layout.run_file("supervisor"), {})
    return lock
