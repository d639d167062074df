"""Packages that a command finds out it needs, once its settings are known to be good.

The launcher installs by the command's name alone. Whether `up` needs ZooKeeper's server is known only from
its options, the environment, the settings file and the data directory; so `up` reads them all, refuses what
is wrong, and then starts the launcher again with the set of packages that it lacks.
"""

import os
import sys
from pathlib import Path
from typing import Final

from runtime.config import environment

LAUNCHER: Final = Path(__file__).resolve().parents[2] / "portico"
_VARIABLE: Final = "PORTICO_PACKAGES"


def can_install() -> bool:
    """Whether this installation is a checkout, whose launcher installs what is missing."""
    return os.access(LAUNCHER, os.X_OK)


def start_again_with(packages: str) -> None:
    """Become the same command with a set of packages (requirements/NAME.lock).

    Returns where nothing can be done: without a launcher, or when the set did not bring what is missing.
    """
    if can_install() and environment().get(_VARIABLE) != packages:
        sys.stdout.flush()
        os.execve(LAUNCHER, [str(LAUNCHER), *sys.argv[1:]], os.environ | {_VARIABLE: packages})
