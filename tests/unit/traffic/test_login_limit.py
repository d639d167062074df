"""How many wrong passwords."""

from traffic.login_limit import (
    FAILURES_MAX_PER_ADDRESS,
    FAILURES_MAX_PER_PAIR,
    WINDOW_MS,
    LoginLimit,
)


def test_five_failures_a_minute_for_a_user_at_an_address() -> None:
    limit = LoginLimit()
    for at_ms in range(FAILURES_MAX_PER_PAIR):
        assert limit.retry_after_ms("1.1.1.1", "admin", at_ms) == 0
        limit.failed("1.1.1.1", "admin", at_ms)
    assert limit.retry_after_ms("1.1.1.1", "admin", 10) == WINDOW_MS - 10
    assert limit.retry_after_ms("1.1.1.1", "admin", WINDOW_MS) == 0


def test_nobody_can_lock_a_user_out_from_elsewhere() -> None:
    limit = LoginLimit()
    for _ in range(100):
        limit.failed("6.6.6.6", "admin", 0)
    assert limit.retry_after_ms("1.1.1.1", "admin", 0) == 0


def test_an_address_that_tries_many_users() -> None:
    limit = LoginLimit()
    for number in range(FAILURES_MAX_PER_ADDRESS):
        limit.failed("6.6.6.6", f"user{number}", 0)
    assert limit.retry_after_ms("6.6.6.6", "another", 1) > 0


def test_success_forgets_the_failures_of_the_pair() -> None:
    limit = LoginLimit()
    for _ in range(FAILURES_MAX_PER_PAIR):
        limit.failed("1.1.1.1", "admin", 0)
    limit.succeeded("1.1.1.1", "admin")
    assert limit.retry_after_ms("1.1.1.1", "admin", 1) == 0


def test_memory_is_bounded() -> None:
    limit = LoginLimit()
    for number in range(20_000):
        limit.failed(f"address{number}", "admin", 0)
    assert len(limit._failures) <= 10_000
