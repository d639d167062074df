"""Reply tokens that answer calls."""

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.coordination.effects import Token
from broker.requests.call import Call
from broker.requests.causes import CloseCause
from runtime.logs import get_logger

_log = get_logger(__name__)
_COUNTED: Final = (
    ErrorCode.group_max_size_reached,
    ErrorCode.invalid_commit_offset_size,
    ErrorCode.policy_violation,
    ErrorCode.unknown_server_error,
)
"""Errors that say that a bound was met: the instance's refusals are counted by them."""


def answering(call: Call, response_of: Callable[[Any], Any]) -> Token:
    """A reply token that answers the call with `response_of(result)`.

    A parked answer is built outside of the dispatch that guards handlers, so a bug in it is caught here.
    """

    def answer(result: Any) -> None:
        if call.is_gone or call.done:
            return
        payer = call.channel.login.payer
        if payer is not None and getattr(result, "error", None) in _COUNTED:
            payer.refuse(result.error.name)
        try:
            call.reply(response_of(result))
        except Exception:  # noqa: BLE001 - as in dispatch: a bug costs one connection, not the coordinator
            _log.exception("a parked answer could not be built", api_key=call.header.api_key)
            call.close(CloseCause.INTERNAL_ERROR)

    return answer
