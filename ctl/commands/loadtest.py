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
    name: Annotated[str, typer.Argument(help="A file of loadtests/, such as noisy_neighbour.")],
    locust_arguments: Annotated[list[str] | None, typer.Argument(metavar="[LOCUST ARGUMENT]...")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> int:
    """Run a load test; what follows `--` goes to locust."""
    file = _FOLDER / f"{name}.py"
    if not name.isidentifier() or not file.is_file():
        known = sorted(path.stem for path in _FOLDER.glob("[a-z]*.py"))
        raise usage(f"there is no load test '{name}': {', '.join(known)}")
    url, key = locate(data_dir)
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", *(locust_arguments or [])]
    return subprocess.call(command, env=os.environ | {"PORTICO_URL": url, "PORTICO_API_KEY": key})
