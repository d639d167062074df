"""SaslAuthenticate (36), v0-2.

Behaviour: checks the PLAIN token against the deployment's secret. The authorization id, if any, is the
address of the gateway's client, `ip:port`, which DescribeGroups shows, or `broker/<id>/<epoch>`: a broker of
this cluster, which may fetch as a replica and send what a controller sends. A wrong token is answered and the
connection closed. A gateway learns from `auth_bytes` whether traces are taken (`contracts.tracing`).
Deliberately not done: re-authentication (session lifetime is 0: for ever).
Versions: v1 session_lifetime_ms (KIP-368); v2 flexible.
"""

import datetime
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta
from kio.static.protocol import Entity

from broker.config import BrokerConfig
from broker.net.server import Server
from broker.requests.call import Call
from broker.requests.causes import CloseCause
from broker.requests.login import LoginState, check_plain
from contracts.tracing import TAKES_TRACES
from wire.api_table import ApiKey
from wire.build import response_shape


class _Deps(Protocol):
    config: BrokerConfig
    server: Server


def handle(call: Call, deps: _Deps) -> None:
    channel = call.channel
    if deps.config.secret is None or channel.login.is_open or channel.login.state is not LoginState.AGREED:
        call.reply(_answer(call, ErrorCode.illegal_sasl_state, "SaslHandshake comes first, and once"))
        channel.close(CloseCause.AUTHENTICATION_FAILED)
        return
    authorization_id = check_plain(call.request.auth_bytes, deps.config.secret)
    if authorization_id is None:
        call.reply(
            _answer(
                call,
                ErrorCode.sasl_authentication_failed,
                "Authentication failed: Invalid username or password",
            )
        )
        channel.close(CloseCause.AUTHENTICATION_FAILED)
        return
    channel.authenticated(authorization_id)
    takes_traces = deps.server.traces is not None and channel.login.payer is not None
    call.reply(_answer(call, ErrorCode.none, None, TAKES_TRACES if takes_traces else b""))


def _answer(call: Call, error_code: ErrorCode, message: str | None, auth_bytes: bytes = b"") -> Entity:
    return response_shape(ApiKey.SASL_AUTHENTICATE, call.api_version).make(
        error_code=error_code,
        error_message=message,
        auth_bytes=auth_bytes,
        session_lifetime=i64Timedelta.parse(datetime.timedelta(0)),
    )
