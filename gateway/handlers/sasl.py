"""SaslHandshake 0-1 and SaslAuthenticate 0-2 on a listener without SASL: ILLEGAL_SASL_STATE.

The port and the whitelist are the client's identity here; a client set to SASL learns that it need not be.
"""

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from gateway.session.call import Answer, Call
from wire.api_table import ApiKey


def on_request(call: Call, request: Payload) -> Answer:
    """Refuse in the API's own form; the connection stays open."""
    del request
    error_code = ErrorCode.illegal_sasl_state
    if call.api_key == ApiKey.SASL_HANDSHAKE:
        return call.answer(error_code=error_code)
    message = "this address takes connections without SASL (security.protocol=PLAINTEXT)"
    return call.answer(error_code=error_code, error_message=message)
