"""SaslHandshake 0-1 and SaslAuthenticate 0-2: users log in where the vport asks for it.

Elsewhere the port and the whitelist are the client's identity, and a client set to SASL learns by
ILLEGAL_SASL_STATE that it need not be. A refused login is answered late and in the same words whatever was
wrong with it, and ends the connection, as in Kafka. One that was not looked at ends it without a word:
clients try again then, where an answer of Kafka's would make them give up. The messages that follow a
handshake of version 0 have no header of Kafka's, and a wrong password among them no answer.
"""

from datetime import timedelta
from functools import partial
from typing import Final, cast

from kio.schema.errors import ErrorCode

from contracts.users import Mechanism
from gateway.apis import BEFORE_LOGIN, SERVED
from gateway.causes import DisconnectCause
from gateway.session.call import Answer, Call, Encoded, Later
from gateway.session.deps import Pauses
from gateway.session.tenant_login import MECHANISMS, Refusal, TenantLogin
from gateway.stops import ConnectionStop
from wire.api_table import ApiKey
from wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

_NO_LOGIN: Final = "this address takes connections without SASL (security.protocol=PLAINTEXT)"


def on_request(call: Call, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> Answer | Later:
    """Take the next step of a login."""
    login = call.conversation.login
    if login is None:
        return _refused_here(call)
    if call.api_key == ApiKey.SASL_HANDSHAKE:
        return _handshake(call, login, cast(SaslHandshakeRequest, request))
    return _authenticate(call, login, cast(SaslAuthenticateRequest, request))


def _refused_here(call: Call, ends: ConnectionStop | None = None) -> Answer:
    """The connection stays open unless `ends` says otherwise."""
    known: dict[str, object] = {"error_code": ErrorCode.illegal_sasl_state}
    if call.api_key == ApiKey.SASL_AUTHENTICATE:
        known["error_message"] = _NO_LOGIN if call.conversation.login is None else "out of order"
    return Answer(call.response(**known), ends)


def _handshake(call: Call, login: TenantLogin, request: SaslHandshakeRequest) -> Answer | Later:
    if login.is_under_way:
        return _refused_here(call, ConnectionStop(DisconnectCause.NOT_AUTHENTICATED, "a second handshake"))
    if not login.may_begin(call.spec.limits.login_ms_max, call.conversation.now_ms):
        return _refused_here(call)
    takes_tokens = call.instance.logins.takes_tokens
    mechanisms = [str(one) for one in (*MECHANISMS, *((Mechanism.OAUTHBEARER,) if takes_tokens else ()))]
    if request.mechanism not in mechanisms:
        answer = call.response(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=mechanisms)
        detail = f"mechanism {request.mechanism[:20]!r}"
        return Answer(answer, ConnectionStop(DisconnectCause.AUTHENTICATION_FAILED, detail))
    login.begin(Mechanism(request.mechanism))
    call.conversation.rows = BEFORE_LOGIN
    answered = call.answer(mechanisms=mechanisms)
    if call.api_version == 0:
        login.takes_raw = True
        return Later(partial(_now, answered))  # so that what follows is known to be no request
    return answered


async def _now(answer: Answer, _deps: Pauses) -> Answer:
    return answer


def _authenticate(call: Call, login: TenantLogin, request: SaslAuthenticateRequest) -> Answer | Later:
    if not login.is_under_way:
        is_in = call.conversation.rows is SERVED
        stop = ConnectionStop(DisconnectCause.NOT_AUTHENTICATED, "no handshake before the login")
        return _refused_here(call, None if is_in else stop)
    try:
        said = _taken(call, login, request.auth_bytes)
    except Refusal as refusal:
        if refusal.cause is not DisconnectCause.AUTHENTICATION_FAILED:
            return Later(partial(_ended, refusal))
        message = (
            "Authentication failed during authentication due to invalid credentials "
            f"with SASL mechanism {refusal.mechanism}"
        )
        response = call.response(error_code=ErrorCode.sasl_authentication_failed, error_message=message)
        return Later(partial(_late, Answer(response, _end(refusal)), refusal.delay_ms))
    expires_ms = login.expires_ms if call.conversation.rows is SERVED else None
    lifetime_ms = 0 if expires_ms is None else expires_ms - login.since_ms
    return call.answer(auth_bytes=said, session_lifetime=timedelta(milliseconds=lifetime_ms))


def _taken(call: Call, login: TenantLogin, message: bytes) -> bytes:
    """What the client is told. Raises: Refusal."""
    conversation = call.conversation
    said = login.take(message, call.spec.limits.login_ms_max, conversation.now_ms)
    if said.is_in:
        conversation.rows = SERVED
    return said.message


def take_raw(call: Call, login: TenantLogin, message: bytes) -> Encoded | Later:
    """A message behind a handshake of version 0. Raises: ConnectionStop, late."""
    try:
        return Encoded(_taken(call, login, message))
    except Refusal as refusal:
        return Later(partial(_ended, refusal))


async def _late(answer: Answer, delay_ms: int, deps: Pauses) -> Answer:
    await deps.pause(delay_ms)
    return answer


async def _ended(refusal: Refusal, deps: Pauses) -> Answer:
    await deps.pause(refusal.delay_ms)
    raise _end(refusal)


def _end(refusal: Refusal) -> ConnectionStop:
    return ConnectionStop(refusal.cause, str(refusal))
