"""Webhooks as data: which addresses may be called, how messages are signed, when they are tried again."""

import base64
from ipaddress import ip_network

import pytest

from tenants.rules.webhooks import BACKOFF_MS, fault_of_url, next_try_ms, refusal_of, secret_of, signature


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "169.254.1.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "2002:a00:1::1", "fec0::1", "168.63.129.16", "192.0.0.8", "192.0.0.170"),
        *("192.88.99.1", "3fff::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "::ffff:168.63.129.16"),
    ],
)
def test_what_leads_inside_is_refused(address: str) -> None:
    assert refusal_of(address, ()) is not None


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_the_public_internet_is_not(address: str) -> None:
    assert refusal_of(address, ()) is None


def test_ranges_that_operators_allow_are_those_and_no_others() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("::1/128")]
    assert refusal_of("10.1.2.3", allowed) is None
    assert refusal_of("::ffff:10.1.2.3", allowed) is None
    assert refusal_of("::1", allowed) is None
    assert refusal_of("10.2.0.1", allowed) is not None
    assert refusal_of("127.0.0.1", allowed) is not None


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com/hook", "ftp://example.com", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x"),
        *("http://", "http://:80/", "http://user:secret@example.com/", "https://example.com/#a"),
        *("http://example.com:0/", "http://example.com:99999/", "http://example.com/\r\nHost: x"),
        *("http://exämple.com/", "http://[::1/", "http://example.com/ b", "https://e.com/" + "a" * 1024),
    ],
)
def test_what_is_no_url_of_a_sink(url: str) -> None:
    assert fault_of_url(url) is not None


@pytest.mark.parametrize(
    "url", ["https://example.com", "http://example.com:8080/a/b?token=c", "https://[::1]/"]
)
def test_what_may_be_tried(url: str) -> None:
    assert fault_of_url(url) is None


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    key = base64.b64decode(secret.removeprefix("whsec_"))
    told = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert secret_of(key) == secret


def test_waits_grow_and_end() -> None:
    waits = [next_try_ms(number, 0) for number in range(1, len(BACKOFF_MS) + 2)]
    assert waits == [*BACKOFF_MS, None]
    assert list(BACKOFF_MS) == sorted(BACKOFF_MS)
