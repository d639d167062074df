"""What servers of a lake's storage have in common."""

from collections.abc import Mapping
from typing import Protocol

import pytest


class StoreServer(Protocol):
    """One that runs."""

    @property
    def root(self) -> str:
        """Its URL, below which lakes are."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to use it."""


def use(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, and in all that is started from now on."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
