"""SaslHandshake 0-1 and SaslAuthenticate 0-2 on a listener without SASL: ILLEGAL_SASL_STATE.

The port and the whitelist are the client's identity here; a client set to SASL learns that it need not be.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from gateway.session.call import Answer, Call


def on_request(call: Call, request: Any) -> Answer:
    """Refuse in the API's own form; the connection stays open."""
    del request
    return call.answer(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="this address takes connections without SASL (security.protocol=PLAINTEXT)",
        mechanisms=(),
    )
