"""Repeated signatures and rates of the CKafka-compatible endpoint, on a clock of the test's own."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.ckafka.request.params import ckafka_id_of, instance_id_of
from tenants.ckafka.request.rates import CALLS_PER_S, bucket_of
from tenants.ckafka.request.replays import MOMENT_MS, SEEN_MAX_PER_TENANT, Replays
from tenants.ckafka.request.signature import Signable, is_signed_by, parse_authorization, signature
from tenants.rules.rate_limit import RateLimit

READ, WRITE, OTHER = "DescribeTopic", "DeleteTopic", "CreatePartition"


def test_a_read_may_be_repeated() -> None:
    replays = Replays()
    for now_ms in (0, 1_000, 299_000):
        assert replays.admits("t", "s", READ, now_ms, changes=False)


def test_a_change_may_not_be_repeated() -> None:
    replays = Replays()
    assert replays.admits("t", "s", WRITE, 0, changes=True)
    assert not replays.admits("t", "s", WRITE, 1, changes=True)
    assert not replays.admits("t", "s", WRITE, 299_000, changes=True)


def test_a_recorded_read_does_not_become_a_change_later() -> None:
    replays = Replays()
    assert replays.admits("t", "s", READ, 0, changes=False)
    assert not replays.admits("t", "s", WRITE, MOMENT_MS + 1, changes=True)
    assert replays.admits("t", "s", READ, MOMENT_MS + 2, changes=False)


def test_a_script_may_do_several_things_in_one_second() -> None:
    """The SDK signs neither action nor nonce: the same body in the same second has the same signature."""
    replays = Replays()
    assert replays.admits("t", "s", READ, 0, changes=False)
    assert replays.admits("t", "s", WRITE, 100, changes=True)
    assert replays.admits("t", "s", OTHER, 900, changes=True)
    assert not replays.admits("t", "s", OTHER, 950, changes=True)


def test_what_is_remembered_is_bounded_by_tenant() -> None:
    replays = Replays()
    assert replays.admits("quiet", "s", WRITE, 0, changes=True)
    for number in range(SEEN_MAX_PER_TENANT + 10):
        assert replays.admits("loud", str(number), READ, 1, changes=False)
    assert len(replays._tenants["loud"]) == SEEN_MAX_PER_TENANT
    assert not replays.admits("quiet", "s", WRITE, 2, changes=True), "a neighbour makes nobody forget"
    assert replays.admits("loud", "new", READ, 700_000, changes=False)
    assert len(replays._tenants["loud"]) == 1, "what no clock would admit any more is forgotten"


def test_calls_have_a_rate_by_tenant_and_action() -> None:
    rates = RateLimit()

    def admitted(tenant: str, action: str, at_s: float) -> int:
        buckets = [bucket_of(tenant, action)]
        return sum(rates.take(buckets, int(at_s * 1e6)).is_admitted for _ in range(100))

    assert admitted("a", READ, 0) == CALLS_PER_S
    assert admitted("a", WRITE, 0) == CALLS_PER_S
    assert admitted("b", READ, 0) == CALLS_PER_S
    assert admitted("a", READ, 0.5) == CALLS_PER_S // 2
    assert admitted("a", READ, 60) == CALLS_PER_S
    assert admitted("a", "CreateInstancePre", 0) == 10


def test_an_example_of_the_public_description() -> None:
    """The description of the signature method has a worked example, whose header values are in lower case."""
    payload = '{"Limit": 1, "Filters": [{"Values": ["\\u672a\\u547d\\u540d"], "Name": "instance-name"}]}'
    hashed = hashlib.sha256(payload.encode()).hexdigest()
    assert hashed == "35e9c5b0e3ae67532d3c9f17ead6c90222632e5b1ff7f6e89887f1398934f064"
    headers = {
        "content-type": "application/json; charset=utf-8",
        "host": "cvm.tencentcloudapi.com",
        "x-tc-action": "DescribeInstances",
    }
    request = Signable("POST", "", headers, hashed, 1_551_113_065)
    key = "*" * 32
    names = ("content-type", "host", "x-tc-action")
    made = signature(request, "cvm", names, key, lower=True)
    said = parse_authorization(
        f"TC3-HMAC-SHA256 Credential=AKID/2019-02-25/cvm/tc3_request, "
        f"SignedHeaders={';'.join(names)}, Signature={made}"
    )
    assert said is not None
    assert is_signed_by(request, said, key)
    other = request._replace(headers=headers | {"x-tc-action": "TerminateInstances"})
    assert not is_signed_by(other, said, key), "who signs the action binds it"
    assert not is_signed_by(request, said, key + "*")


@given(st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=11, max_size=11))
def test_ids_go_both_ways(letters: str) -> None:
    assert instance_id_of(ckafka_id_of("i" + letters)) == "i" + letters


@pytest.mark.parametrize("date", ["2026-13-01", "1970-01-01"])
def test_a_date_is_text_of_a_scope_only(date: str) -> None:
    said = parse_authorization(
        f"TC3-HMAC-SHA256 Credential=A/{date}/ckafka/tc3_request, SignedHeaders=host, Signature={'0' * 64}"
    )
    assert said is not None
    assert said.date == date
