"""`portico down`: stop the stack of a data directory, wherever it was started."""

from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.stack.keeper import stop_running
from ctl.stack.layout import Layout


def down(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop a stack, detached or not, and wait until it has stopped."""
    stop_running(Layout(data_dir.resolve()), "stack")
