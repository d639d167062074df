"""How many requests a key and its tenant may send."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tenants.rules.rate_limit import ApiRates, Bucket, Quota, RateLimit

_QUOTA = Quota("key", 10, 5)
_SECOND_US = 1_000_000


def test_a_bucket_at_once_and_then_what_flows_in() -> None:
    limit = RateLimit()
    bucket = [Bucket("a", _QUOTA)]
    verdicts = [limit.take(bucket, 0) for _ in range(11)]
    assert [one.remaining for one in verdicts] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert [one.is_admitted for one in verdicts] == [True] * 10 + [False]
    assert verdicts[-1].retry_after_us == _SECOND_US // 2
    assert verdicts[-1].full_after_us == 5 * _SECOND_US
    assert not limit.take(bucket, _SECOND_US // 2 - 1).is_admitted
    assert limit.take(bucket, _SECOND_US // 2).is_admitted
    assert limit.take([Bucket("b", _QUOTA)], 0).remaining == 9, "somebody else's is full"


def test_a_refused_request_is_charged_to_none_of_its_buckets() -> None:
    limit = RateLimit()
    narrow, wide = Quota("key", 2, 10), Quota("tenant", 5, 10)
    mine, theirs = Bucket("mine", narrow), Bucket("theirs", narrow)
    tenant = Bucket("tenant", wide)
    assert [limit.take([mine, tenant], 0).is_admitted for _ in range(9)].count(True) == 2
    verdicts = [limit.take([theirs, tenant], 0) for _ in range(2)]
    assert all(one.is_admitted for one in verdicts), "the first key's refusals took nothing of the tenant's"
    last = limit.take([Bucket("third", narrow), tenant], 0)
    assert last.is_admitted and last.quota.name == "tenant" and last.remaining == 0
    refused = limit.take([Bucket("fourth", narrow), tenant], 0)
    assert not refused.is_admitted and refused.quota.name == "tenant"


@given(st.lists(st.integers(0, 3 * _SECOND_US), max_size=200))
def test_no_window_admits_more_than_a_bucket_and_what_flows_in(gaps: list[int]) -> None:
    limit, now_us, admitted = RateLimit(), 0, []
    for gap_us in gaps:
        now_us += gap_us
        if limit.take([Bucket("a", _QUOTA)], now_us).is_admitted:
            admitted.append(now_us)
    for first, start_us in enumerate(admitted):
        for last, end_us in enumerate(admitted[first:], 1):
            allowed = _QUOTA.requests_max + math.ceil((end_us - start_us) / _QUOTA.interval_us)
            assert last <= allowed


def test_memory_is_bounded() -> None:
    limit = RateLimit()
    for number in range(20_000):
        limit.take([Bucket(str(number), ApiRates().key)], 0)
    assert len(limit) == 10_000
