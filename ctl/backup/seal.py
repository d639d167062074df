"""Secrets behind a passphrase, in age's format: any `age -d` opens them."""

import time
from typing import Final

import msgspec

from ctl.errors import CommandError

PASSPHRASE_CHARACTERS_MIN: Final = 12
_TRIES: Final = 20
_PAUSE_S: Final = 0.25
_TOO_MUCH_WORK: Final = "Excessive work"
"""In the text of age's refusal: it guesses how long the passphrase would take, by a moment of this machine's
time, and that moment may have been somebody else's."""


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a data directory that are not drawn anew."""

    deployment_secret: str
    settings: str | None = None
    """`portico.toml`, which may hold passwords of databases."""
    credentials: dict[str, str] = {}
    """Files by which clusters of Apache Kafka are entered: CLUSTER/FILE -> text."""


def seal(found: Secrets, passphrase: str) -> bytes:
    """Raises: CommandError for a passphrase that is none."""
    if len(passphrase) < PASSPHRASE_CHARACTERS_MIN:
        raise CommandError(f"the passphrase is too short: {PASSPHRASE_CHARACTERS_MIN} characters at least")
    from pyrage import passphrase as age  # here: 0.2 s that other commands need not wait

    sealed: bytes = age.encrypt(msgspec.json.encode(found), passphrase)
    return sealed


def unseal(sealed: bytes, passphrase: str) -> Secrets:
    """Raises: CommandError for another passphrase than it was sealed with, or a machine that is too slow."""
    from pyrage import DecryptError
    from pyrage import passphrase as age

    for _ in range(_TRIES):
        try:
            return msgspec.json.decode(age.decrypt(sealed, passphrase), type=Secrets)
        except DecryptError as error:
            if _TOO_MUCH_WORK not in str(error):
                raise CommandError("the backup's secrets were sealed with another passphrase") from error
        time.sleep(_PAUSE_S)
    raise CommandError("this machine is too busy to open the backup's secrets: try again when it is not")
