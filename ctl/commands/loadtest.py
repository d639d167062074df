"""`portico loadtest`: run a locust file of `loadtests/` against a stack."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ctl.console_client import locate
from ctl.errors import usage
from ctl.options import DEFAULT_DATA_DIR, DataDir

_FOLDER: Final = Path(__file__).resolve().parents[2] / "loadtests"


def loadtest(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A file of loadtests/, such as noisy-neighbour.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> int:
    """Run a load test; other options go to locust: `--help` after `--` shows those of the test."""
    module = name.replace("-", "_")
    known = sorted(path.stem for path in _FOLDER.glob("[a-z]*.py") if "locust" in path.read_text())
    if module not in known:
        shown = ", ".join(each.replace("_", "-") for each in known)
        raise usage(f"there is no load test '{name}': {shown}")
    file = _FOLDER / f"{module}.py"
    url, key = locate(data_dir)
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", *context.args]
    return subprocess.call(command, env=os.environ | {"PORTICO_URL": url, "PORTICO_API_KEY": key})
