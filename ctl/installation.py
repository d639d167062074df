"""How this installation starts: the `./portico` of a clone, or the console script of an installed wheel."""

import sys
from importlib.metadata import version as _version
from pathlib import Path
from typing import Final

_CLONE: Final = Path(__file__).resolve().parents[1]
_IS_CLONE: Final = (_CLONE / "portico").is_file() and (_CLONE / "requirements").is_dir()

CALLED: Final = "./portico" if _IS_CLONE else "portico"
"""What a person who reads our hints types, from the clone's directory or anywhere."""

INSTALL_PIPELINE: Final = (
    "start it with ./portico, which installs it" if _IS_CLONE else "install `portico[pipeline]`"
)
"""How the packages of the pipeline get here: pyspark, whose wheel holds ZooKeeper too, and a Java runtime."""


def launcher() -> Path:
    """The file that a service manager starts."""
    return _CLONE / "portico" if _IS_CLONE else Path(sys.executable).parent / "portico"


def version() -> str:
    """The release, like 0.2.0."""
    return _version("portico")
