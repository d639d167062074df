"""A client's side of the protocol without a socket."""

from types import SimpleNamespace

import pytest
from kio.schema.api_versions.v0 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1 import SaslAuthenticateRequest

from wire.client import (
    ClientSession,
    LoginRefused,
    expect_login,
    login_requests,
    plain_token,
    response_size,
)
from wire.codec import decode, framed_response, parse_request_header
from wire.faults import MalformedFrame

FETCH = 1


def answered(correlation_id: int) -> bytes:
    return framed_response(ApiVersionsResponse(error_code=ErrorCode.none, api_keys=()), correlation_id)[4:]


def test_responses_answer_requests_in_their_order() -> None:
    session = ClientSession("me")
    heads = [parse_request_header(session.request(ApiVersionsRequest())[4:], False) for _ in range(2)]
    assert [(head.correlation_id, head.client_id) for head in heads] == [(1, "me"), (2, "me")]
    assert session.response(answered(1)).error_code is ErrorCode.none
    assert [pending.correlation_id for pending in session.pending] == [2]
    with pytest.raises(MalformedFrame, match="correlation id 1, not 2"):
        session.response(answered(1))


def test_a_body_that_is_there_already_gets_a_head() -> None:
    session = ClientSession("me")
    frame = session.message_head(FETCH, 11, 5) + b"hello"
    assert response_size(frame) == len(frame) - 4
    head = parse_request_header(frame[4:], False)
    assert (head.api_key, head.api_version, frame[4:][head.body_at :]) == (FETCH, 11, b"hello")
    assert session.answered(b"\0\0\0\x01" + b"records") == (1, FETCH, 11)


@pytest.mark.parametrize("size", [-1, 3, 256 * 1024 * 1024 + 1])
def test_a_response_has_a_correlation_id_and_a_bound(size: int) -> None:
    with pytest.raises(MalformedFrame):
        response_size(size.to_bytes(4, "big", signed=True))


def test_a_login_is_two_requests_and_a_verdict() -> None:
    handshake, authenticate = login_requests(plain_token("s3cret", "shop/1.2.3.4:5"))
    assert handshake.mechanism == "PLAIN"
    frame = ClientSession("me").request(authenticate)[4:]
    body_at = parse_request_header(frame, False).body_at
    assert decode(SaslAuthenticateRequest, frame, body_at).auth_bytes == b"shop/1.2.3.4:5\0portico\0s3cret"
    expect_login(SimpleNamespace(error_code=ErrorCode.none))
    refusal = SimpleNamespace(error_code=ErrorCode.sasl_authentication_failed, error_message="no")
    with pytest.raises(LoginRefused, match="refused the deployment's secret: no"):
        expect_login(refusal)
