"""Handshakes under way: who goes when there are too many, and how long none begins."""

import itertools

from gateway.handshakes import HANDSHAKES_MAX, Handshakes

RATE_US_PER_S = 200_000
MS_NS = 1_000_000


def test_the_oldest_of_who_has_most_goes() -> None:
    handshakes: Handshakes[int] = Handshakes()
    for one in range(HANDSHAKES_MAX):
        assert handshakes.begins(one, "192.0.2.1" if one else "192.0.2.7") is None
    assert handshakes.begins(HANDSHAKES_MAX, "192.0.2.7") == 1, "the first one is of an address that has few"
    handshakes.ends(1)
    handshakes.ends(1)
    assert len(handshakes) == HANDSHAKES_MAX
    handshakes.ends(2)
    assert handshakes.begins(1_000, "198.51.100.1") is None, "there is room again"


def test_addresses_of_one_network_are_one_and_nobody_is_forgotten() -> None:
    handshakes: Handshakes[int] = Handshakes()
    numbers = itertools.count()
    assert handshakes.begins(next(numbers), "2001:db8:1::1") is None
    for number in itertools.islice(numbers, HANDSHAKES_MAX - 1):
        assert handshakes.begins(number, f"2001:db8::{number:x}") is None
    for expected in range(1, 50):
        gone = handshakes.begins(next(numbers), f"2001:db8::{expected:x}")
        assert gone == expected
        handshakes.ends(gone)
    assert len(handshakes) == HANDSHAKES_MAX


def test_half_of_the_request_time_is_for_handshakes() -> None:
    handshakes: Handshakes[int] = Handshakes()
    handshakes.spent(100 * MS_NS, RATE_US_PER_S, 0)
    assert handshakes.pause_ms(0) == 0, "a second of its rate is its burst"
    handshakes.spent(50 * MS_NS, RATE_US_PER_S, 0)
    assert handshakes.pause_ms(0) == 500
    assert handshakes.pause_ms(499) == 1 and handshakes.pause_ms(500) == 0
    for _ in range(1_000):
        handshakes.spent(500, RATE_US_PER_S, 500)
    assert handshakes.pause_ms(500) == 5, "what is less than a microsecond adds up"


def test_who_has_no_rate_is_not_kept_waiting() -> None:
    handshakes: Handshakes[int] = Handshakes()
    handshakes.spent(10_000 * MS_NS, 0, 0)
    assert handshakes.pause_ms(0) == 0
