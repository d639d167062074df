"""SaslHandshake (17), v0-1.

Behaviour: the only mechanism is PLAIN with the deployment's secret. A broker without a secret has no SASL
and answers ILLEGAL_SASL_STATE, as Kafka's PLAINTEXT listener does.
Deliberately not done: SCRAM, OAUTHBEARER, GSSAPI; tenants authenticate at the gateway.
Versions: after v0 the token comes as a bare frame, after v1 in SaslAuthenticate (KIP-152).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.requests.call import Call
from broker.requests.login import MECHANISM
from wire.api_table import ApiKey
from wire.build import response_shape


class _Deps(Protocol):
    config: BrokerConfig


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.SASL_HANDSHAKE, call.api_version)
    if deps.config.secret is None or call.channel.login.is_open:
        error_code = ErrorCode.illegal_sasl_state
    elif call.request.mechanism != MECHANISM:
        error_code = ErrorCode.unsupported_sasl_mechanism
    else:
        error_code = ErrorCode.none
        call.channel.login.agrees(on_bare_token=call.api_version == 0)
    call.reply(shape.make(error_code=error_code, mechanisms=(MECHANISM,)))
