"""Where the elected quota master writes itself down, for brokers and other masters."""

from typing import Final

import msgspec

ROOT_PATH: Final = "/portico"
MASTER_PATH: Final = "/portico/master"
"""Ephemeral: the elected master, a `MasterRegistration`."""
MASTER_EPOCH_PATH: Final = "/portico/master_epoch"
"""A decimal that grows with every election: the term of its leases."""
POLICY_PATH: Final = "/portico/quota_policy"
"""The operator's choice of rule, for masters to come."""


class MasterRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The data of MASTER_PATH, as JSON."""

    url: str
    """Base URL of its internal HTTP server."""
    version: int = 1


def decode_registration(data: bytes) -> MasterRegistration | None:
    """What a node's data says; None when it is not understood."""
    try:
        return msgspec.json.decode(data, type=MasterRegistration)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
