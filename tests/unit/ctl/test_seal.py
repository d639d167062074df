"""Secrets behind a passphrase, on a machine that has other things to do."""

from typing import Any

import pyrage
import pytest

from ctl.backup import seal
from ctl.errors import CommandError

PASSPHRASE = "correct horse battery"
SECRETS = seal.Secrets(deployment_secret="s", settings="a = 1\n")


class _Busy:
    """age's decryption, on a machine that looks too slow so many times."""

    def __init__(self, times: int) -> None:
        self._left = times
        self._decrypt = pyrage.passphrase.decrypt

    def __call__(self, sealed: bytes, passphrase: str) -> Any:
        self._left -= 1
        if self._left >= 0:
            raise pyrage.DecryptError(
                "Excessive work parameter for passphrase.\nDecryption would take around 32 seconds."
            )
        return self._decrypt(sealed, passphrase)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "_PAUSE_S", 0)


def _unsealed(monkeypatch: pytest.MonkeyPatch, busy_times: int) -> seal.Secrets:
    sealed = seal.seal(SECRETS, PASSPHRASE)
    monkeypatch.setattr(pyrage.passphrase, "decrypt", _Busy(busy_times))
    return seal.unseal(sealed, PASSPHRASE)


def test_a_moment_without_a_processor_is_no_wrong_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _unsealed(monkeypatch, 5) == SECRETS


def test_a_machine_that_stays_too_slow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="too busy"):
        _unsealed(monkeypatch, 10**6)
