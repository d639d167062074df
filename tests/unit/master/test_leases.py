"""Leases: who is given one when, and what it carries."""

import msgspec
import pytest

from contracts.quota import CpuAllocation
from master.quota.leases import EPOCH_MAX, TERM_FACTOR, LeaseBook, cpu_terms

TERM = 3
LEASE_MS = 5_000
RENEW_AFTER_MS = 2_000


@pytest.fixture
def book() -> LeaseBook[CpuAllocation]:
    return LeaseBook(cpu_terms, term=TERM, lease_ms=LEASE_MS, renew_after_ms=RENEW_AFTER_MS)


def _offer(instance_id: str = "ione", rate: int = 100) -> CpuAllocation:
    return CpuAllocation(instance_id=instance_id, lease_epoch=0, lease_ms=0, rate_us_per_s=rate)


def test_a_lease_says_how_long_it_holds_and_has_the_largest_epoch_so_far(
    book: LeaseBook[CpuAllocation],
) -> None:
    first = book.grant("broker-1", _offer(), 0, unasked=False)
    second = book.grant("broker-2", _offer(), 0, unasked=False)
    assert first is not None and second is not None
    assert msgspec.structs.replace(first, lease_epoch=0) == CpuAllocation(
        instance_id="ione", lease_epoch=0, lease_ms=LEASE_MS, rate_us_per_s=100
    )
    assert TERM * TERM_FACTOR < first.lease_epoch < second.lease_epoch < (TERM + 1) * TERM_FACTOR
    assert book.granted_to("broker-1") == [first] and book.granted_to("broker-2") == [second]
    assert book.granted_to("broker-3") == []


def test_who_did_not_ask_hears_of_another_rate_or_of_a_lease_that_is_due(
    book: LeaseBook[CpuAllocation],
) -> None:
    assert book.grant("broker-1", _offer(), 0, unasked=True) is not None, "it never had one"
    assert book.grant("broker-1", _offer(), RENEW_AFTER_MS - 1, unasked=True) is None
    assert book.grant("broker-1", _offer(), RENEW_AFTER_MS, unasked=True) is not None
    assert book.grant("broker-1", _offer(rate=101), RENEW_AFTER_MS + 1, unasked=True) is not None
    assert book.grant("broker-1", _offer(rate=101), RENEW_AFTER_MS + 2, unasked=False) is not None, "it asks"


def test_the_epoch_in_force_is_the_last_one_of_the_point_and_instance(book: LeaseBook[CpuAllocation]) -> None:
    leases = [
        book.grant(point, _offer(instance_id), 0, unasked=False)
        for point in ("broker-1", "broker-2")
        for instance_id in ("ione", "itwo")
    ]
    assert [
        book.epoch_of(point, instance_id)
        for point in ("broker-1", "broker-2")
        for instance_id in ("ione", "itwo")
    ] == [lease.lease_epoch for lease in leases if lease is not None]
    assert book.epoch_of("broker-3", "ione") == book.epoch_of("broker-1", "ithree") == 0


def test_what_is_gone_is_forgotten_and_nothing_else(book: LeaseBook[CpuAllocation]) -> None:
    for point in ("broker-1", "broker-2"):
        book.grant(point, _offer("ione"), 0, unasked=False)
    kept = book.grant("broker-1", _offer("itwo"), 0, unasked=False)
    book.forget_instance("ione")
    assert (book.granted_to("broker-1"), book.granted_to("broker-2")) == ([kept], [])
    book.grant("broker-2", _offer("itwo"), 0, unasked=False)
    book.forget_point("broker-2")
    assert (book.granted_to("broker-1"), book.granted_to("broker-2")) == ([kept], [])
    book.forget_point("broker-2")


@pytest.mark.parametrize("renew_after_ms", [0, LEASE_MS])
def test_a_lease_is_renewed_before_it_ends(renew_after_ms: int) -> None:
    with pytest.raises(AssertionError):
        LeaseBook(cpu_terms, term=TERM, lease_ms=LEASE_MS, renew_after_ms=renew_after_ms)


def test_an_epoch_is_newer_than_all_leases_given_or_it_is_not(book: LeaseBook[CpuAllocation]) -> None:
    last = book.grant("broker-1", _offer(), 0, unasked=False)
    assert last is not None
    given = [0, last.lease_epoch - TERM_FACTOR, last.lease_epoch - 1, last.lease_epoch]
    newer = [last.lease_epoch + 1, last.lease_epoch + TERM_FACTOR, EPOCH_MAX]
    assert [book.has_given(epoch) for epoch in given] == [True] * 4
    assert [book.has_given(epoch) for epoch in newer] == [False] * 3
    assert book.has_given(EPOCH_MAX + 1), "damage, which nobody follows"
    assert EPOCH_MAX + 3 * TERM_FACTOR < 2**62, "what points can report of the terms after"
