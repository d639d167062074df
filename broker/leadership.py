"""Leader epochs in requests (KIP-320): a client that knows an older or newer leader is told so. Pure."""

from typing import Final

from kio.schema.errors import ErrorCode

LEADER_EPOCH: Final = 0
"""Of every partition: one broker leads it for ever."""


def epoch_fault(current_leader_epoch: int) -> ErrorCode:
    """What a request's current_leader_epoch gets; `none` when it fits or was not given (-1)."""
    if current_leader_epoch < 0 or current_leader_epoch == LEADER_EPOCH:
        return ErrorCode.none
    if current_leader_epoch < LEADER_EPOCH:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
