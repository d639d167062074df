"""A session where users log in: what goes before, what ends it; how the bytes come is all the same."""

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from contracts.users import SecurityProtocol
from gateway.apis import APIS
from gateway.causes import DisconnectCause
from gateway.rules.logins import WRONG_MAX_PER_ADDRESS, WRONG_MAX_PER_PAIR, Logins
from gateway.served import ServedInstance
from gateway.session.timers import Timeouts
from gateway.stops import ConnectionStop
from tests.unit.gateway.scram_client import ScramClient
from tests.unit.gateway.session_host import CLIENT, Frames, SessionHost, brokers_reply, served_instance
from tests.unit.gateway.test_logins import user
from tests.unit.gateway.tokens import NOW_MS, elliptic, message, oauth, rsa, token
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import decode_response, framed_request, request_class

SASL = SecurityProtocol.SASL_PLAINTEXT
PASSWORD = "right-password"


class Client:
    """Sends one request at a time to a session, in pieces of `size` bytes, and decodes what comes back."""

    def __init__(self, served: ServedInstance | None = None, size: int = 1 << 20) -> None:
        self.served = served or served_instance(users=(user("app", PASSWORD), user("other", PASSWORD)))
        self.host = SessionHost(self.served, security_protocol=SASL)
        self._size = size
        self._frames = Frames()
        self._seen = 0

    def sends(self, data: bytes) -> None:
        for at in range(0, len(data), self._size):
            self.host.client_sends(data[at : at + self._size])

    def frames(self) -> list[bytes]:
        came, self._seen = bytes(self.host.down[self._seen :]), len(self.host.down)
        return self._frames.take(came)

    def call(self, key: int, version: int, **known: Any) -> Any:
        self.sends(framed_request(build(request_class(key, version), known), 1, "c"))
        (frame,) = self.frames()
        return decode_response(frame, key, version)[1]

    def refused(self, key: int, version: int, **known: Any) -> tuple[Any, DisconnectCause]:
        """The last answer, if there was one, and why the connection ends."""
        with pytest.raises(ConnectionStop) as stop:
            self.sends(framed_request(build(request_class(key, version), known), 1, "c"))
        frames = self.frames()
        answer = decode_response(frames[-1], key, version)[1] if frames else None
        return answer, stop.value.cause

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    def plain(self, name: str = "app", password: str = PASSWORD, version: int = 2) -> Any:
        self.handshake()
        return self.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=f"\0{name}\0{password}".encode())

    def metadata(self) -> Any:
        """Asked for, answered by the broker."""
        seen = len(self.host.up)
        request = build(request_class(ApiKey.METADATA, 4), {"topics": None})
        self.sends(framed_request(request, 9, "c"))
        (went,) = Frames().take(bytes(self.host.up[seen:]))
        self.host.broker_sends(brokers_reply(went))
        (frame,) = self.frames()
        return decode_response(frame, ApiKey.METADATA, 4)[1]


@pytest.mark.parametrize("key", sorted(APIS))
def test_nothing_but_versions_and_a_login_is_answered_before_it(key: int) -> None:
    row = APIS[key]
    if row.key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return
    for version in (row.versions.lowest, row.versions.highest, 99):
        host = SessionHost(served_instance(), security_protocol=SASL)
        with pytest.raises(ConnectionStop) as stop:
            host.client_sends(struct.pack(">ihhihb", 11, key, version, 1, -1, 0))
        assert stop.value.cause is DisconnectCause.NOT_AUTHENTICATED
        assert not host.up and not host.down


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_then_everything_as_ever(size: int, version: int) -> None:
    client = Client(size=size)
    assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
    handshake = client.handshake()
    assert (handshake.error_code, handshake.mechanisms) == (0, ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"))
    answer = client.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=f"\0app\0{PASSWORD}".encode())
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    (broker,) = client.metadata().brokers
    own = next(one for one in client.served.spec.listeners if one.security_protocol is SASL)
    assert broker.port == own.port, "the vport of the same way of coming in"


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
def test_scram_then_everything_as_ever(size: int, mechanism: str, hash_name: str) -> None:
    client, scram = Client(size=size), ScramClient(hash_name, "app", PASSWORD)
    client.handshake(mechanism)
    said = client.call(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=scram.first())
    proved = client.call(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=scram.final(said.auth_bytes))
    assert scram.is_answered_by(proved.auth_bytes)
    assert client.metadata().brokers


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_messages_behind_a_handshake_of_version_0_have_no_header(size: int) -> None:
    client, scram = Client(size=size), ScramClient("sha256", "app", PASSWORD)
    assert client.handshake("SCRAM-SHA-256", version=0).error_code == 0
    client.sends(struct.pack(">i", len(scram.first())) + scram.first())
    (said,) = client.frames()
    final = scram.final(said)
    client.sends(struct.pack(">i", len(final)) + final)
    (proved,) = client.frames()
    assert scram.is_answered_by(proved)
    assert client.metadata().brokers
    client = Client(size=size)
    client.handshake("PLAIN", version=0)
    message = f"\0app\0{PASSWORD}".encode()
    client.sends(struct.pack(">i", len(message)) + message)
    assert client.frames() == [b""] and client.metadata().brokers


def test_a_wrong_password_and_a_wrong_name_are_answered_alike_and_end_the_connection() -> None:
    answers = []
    for name, password in (("app", "wrong-password"), ("nobody", PASSWORD)):
        client = Client()
        client.handshake()
        auth_bytes = f"\0{name}\0{password}".encode()
        answer, cause = client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=auth_bytes)
        assert cause is DisconnectCause.AUTHENTICATION_FAILED
        answers.append(answer)
    assert answers[0] == answers[1] and answers[0].error_code is ErrorCode.sasl_authentication_failed
    assert "PLAIN" in answers[0].error_message and not answers[0].auth_bytes


def test_who_tries_too_often_is_refused_unseen_until_a_minute_is_over() -> None:
    served = served_instance(users=(user("app", PASSWORD),))
    for _ in range(WRONG_MAX_PER_PAIR):
        client = Client(served)
        client.handshake()
        client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0app\0wrong-password")
    client = Client(served)
    client.handshake()
    right = f"\0app\0{PASSWORD}".encode()
    answer, cause = client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=right)
    assert cause is DisconnectCause.TOO_MANY_WRONG_PASSWORDS
    assert answer is None, "clients give up when they are told of a wrong password"
    client = Client(served)
    client.host.now_ms = 60_001
    assert client.plain().error_code == 0


def test_what_is_out_of_order_ends_the_connection() -> None:
    illegal = ErrorCode.illegal_sasl_state
    answer, cause = Client().refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0app\0x")
    assert (answer.error_code, cause) == (illegal, DisconnectCause.NOT_AUTHENTICATED)
    client = Client()
    client.handshake()
    answer, cause = client.refused(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert (answer.error_code, cause) == (illegal, DisconnectCause.NOT_AUTHENTICATED)
    answer, cause = Client().refused(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism and "PLAIN" in answer.mechanisms
    assert cause is DisconnectCause.AUTHENTICATION_FAILED


def test_a_login_after_the_login_is_refused_and_the_connection_goes_on() -> None:
    client = Client()
    assert client.plain().error_code == 0
    assert client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code is ErrorCode.illegal_sasl_state
    answer = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0other\0x")
    assert answer.error_code is ErrorCode.illegal_sasl_state
    assert client.metadata().brokers


def overdue(client: Client, now_ms: int) -> DisconnectCause | None:
    return client.host.session.overdue(Timeouts(), now_ms, host_waits=False, reads_client=True)


def test_a_login_holds_for_its_time_and_is_repeated_by_the_same_user() -> None:
    served = served_instance(users=(user("app", PASSWORD), user("other", PASSWORD)), login_ms_max=60_000)
    client = Client(served)
    answer = client.plain()
    assert answer.session_lifetime.total_seconds() == 60
    assert client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code is ErrorCode.illegal_sasl_state
    client.host.now_ms = 50_000
    assert client.plain().error_code == 0 and client.metadata().brokers
    client.host.session.connects()
    client.host.now_ms = 105_000
    assert overdue(client, 105_000) is None and client.metadata().brokers
    client.host.now_ms = 110_001
    assert overdue(client, 110_001) is None
    assert client.plain().error_code == 0 and client.metadata().brokers, "late, and before anything else"
    client.host.now_ms = 170_002
    overdue(client, 170_002)
    _, cause = client.refused(ApiKey.METADATA, 4, topics=None)
    assert cause is DisconnectCause.LOGIN_EXPIRED
    other = Client(served)
    other.plain()
    other.host.now_ms = 50_000
    other.handshake()
    auth_bytes = f"\0other\0{PASSWORD}".encode()
    _, cause = other.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=auth_bytes)
    assert cause is DisconnectCause.AUTHENTICATION_FAILED


def test_a_login_that_does_not_come_is_not_waited_for() -> None:
    client = Client()
    client.handshake("SCRAM-SHA-256")
    assert overdue(client, Timeouts().login_ms - 1) is None
    assert overdue(client, Timeouts().login_ms) is DisconnectCause.LOGIN_TIMEOUT
    client = Client()
    client.plain()
    assert overdue(client, Timeouts().login_ms) is None


@pytest.mark.parametrize("raw", [False, True])
def test_a_message_as_large_as_no_password_is_refused_by_its_length(raw: bool) -> None:
    client = Client()
    client.handshake(version=0 if raw else 1)
    for size, cause in (
        (100_000_000, DisconnectCause.REQUEST_TOO_LARGE),
        (-1, DisconnectCause.BAD_FRAME_LENGTH),
    ):
        client = Client(served_instance(request_bytes_max=200_000_000))
        client.handshake(version=0 if raw else 1)
        head = struct.pack(">i", size)
        with pytest.raises(ConnectionStop) as stop:
            client.sends(head if raw else head + struct.pack(">hhi", ApiKey.SASL_AUTHENTICATE, 2, 1))
        assert stop.value.cause is cause


def test_bytes_of_a_login_that_has_not_ended_are_given_back() -> None:
    client = Client()
    client.handshake(version=0)
    client.sends(struct.pack(">i", 1000) + b"x" * 500)
    client.host.session.closes()
    client.served.collect(64 * 1024 * 1024)


def test_a_login_is_void_when_its_user_has_changed() -> None:
    client = Client()
    assert not client.host.session.login_is_void
    client.plain()
    assert not client.host.session.login_is_void
    client.served.logins.take([user("app", PASSWORD)])
    assert not client.host.session.login_is_void
    client.served.logins.take([user("app", "another-password")])
    assert client.host.session.login_is_void


def bearer(client: Client, value: str, user: str = "") -> Any:
    assert client.handshake("OAUTHBEARER").error_code == 0
    return client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message(value, user))


def with_tokens(now_ms: int = NOW_MS, **changes: Any) -> ServedInstance:
    served = served_instance(**changes)
    served.spec = replace(served.spec, oauth=oauth())
    served.logins = Logins(b"secret", bytes, lambda: now_ms)
    served.logins.take((), served.spec.oauth)
    return served


def test_a_client_logs_in_by_a_token_and_is_who_it_names() -> None:
    client = Client(with_tokens())
    answer = bearer(client, token(sub="orders-app"), "orders-app")
    assert answer.error_code == 0 and client.metadata().brokers
    assert answer.session_lifetime.total_seconds() == 3_600 + 30, "until it ends, and what clocks may differ"
    other = Client(with_tokens())
    other.handshake("OAUTHBEARER")
    auth_bytes = message(token(sub="orders-app"), "somebody")
    answer, _ = other.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=auth_bytes)
    assert answer.error_code is ErrorCode.sasl_authentication_failed, "and nobody else"


def test_a_token_that_ends_is_followed_by_another_one_of_the_same_client_or_by_the_end() -> None:
    client = Client(with_tokens())
    bearer(client, token(exp=NOW_MS // 1000 + 30))
    client.host.now_ms = 50_000
    assert bearer(client, token()).error_code == 0 and client.metadata().brokers
    client.host.session.connects()
    client.host.now_ms = 50_000 + 3_630_001
    assert overdue(client, client.host.now_ms) is None
    _, cause = client.refused(ApiKey.METADATA, 4, topics=None)
    assert cause is DisconnectCause.LOGIN_EXPIRED
    other = Client(with_tokens())
    bearer(other, token())
    other.host.now_ms = 50_000
    other.handshake("OAUTHBEARER")
    _, cause = other.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message(token(sub="somebody else")))
    assert cause is DisconnectCause.AUTHENTICATION_FAILED


def test_a_token_holds_for_a_day_at_most_and_for_no_longer_than_any_login() -> None:
    for served, expected_s in ((with_tokens(), 86_400), (with_tokens(login_ms_max=60_000), 60)):
        answer = bearer(Client(served), token(exp=NOW_MS // 1000 + 10**9))
        assert answer.session_lifetime.total_seconds() == expected_s


@pytest.mark.parametrize("bad", ["", "a.b.c", token(aud="others"), token(exp=NOW_MS // 1000 - 60)])
def test_a_bad_token_is_refused_like_a_wrong_password_and_others_by_the_thousand_are_not_looked_at(
    bad: str,
) -> None:
    served = with_tokens()
    for _ in range(WRONG_MAX_PER_PAIR):
        client = Client(served)
        client.handshake("OAUTHBEARER")
        answer, cause = client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message(bad))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert cause is DisconnectCause.AUTHENTICATION_FAILED and "OAUTHBEARER" in answer.error_message
    client = Client(served)
    client.handshake("OAUTHBEARER")
    answer, cause = client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message(bad))
    assert answer is None and cause is DisconnectCause.TOO_MANY_WRONG_PASSWORDS
    assert bearer(Client(served), token()).error_code == 0, "who has a good one beside it gets in"
    for number in range(WRONG_MAX_PER_ADDRESS - WRONG_MAX_PER_PAIR):
        served.logins.wrong(CLIENT, f"token {number}", 1)
    client = Client(served)
    client.handshake("OAUTHBEARER")
    _, cause = client.refused(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message(token()))
    assert cause is DisconnectCause.TOO_MANY_WRONG_PASSWORDS, "whatever they are: each costs a signature"


def test_tokens_are_nothing_where_the_instance_has_no_provider() -> None:
    client = Client()
    answer, _ = client.refused(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert "OAUTHBEARER" not in answer.mechanisms
    assert "OAUTHBEARER" in Client(with_tokens()).handshake().mechanisms


def test_who_came_by_a_token_is_void_when_its_key_or_the_provider_is_gone() -> None:
    served = with_tokens()
    client = Client(served)
    bearer(client, token())
    assert not client.host.session.login_is_void
    served.logins.take((), oauth(rsa(), rsa("new")))
    assert not client.host.session.login_is_void, "keys come and go"
    served.logins.take((), oauth(elliptic()))
    assert client.host.session.login_is_void
    served.logins.take((), None)
    assert client.host.session.login_is_void
