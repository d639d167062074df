"""A quota is set right by what it lets through, when that says something about it."""

import pytest

from master.quota.trim import HIGHEST, JUDGED_MS, LOWEST, ONE, SETTLES_MS, Trim

T = 1_000_000


def lived(lets_through: float, seconds: int, throttled_part: float = 1.0, trim: Trim | None = None) -> Trim:
    """An engine that lets through so many times its quota, asked once a second."""
    trim, used, quota = trim or Trim(), 0, T
    for second in range(seconds):
        quota = trim.of(T, used, round(second * 1_000 * throttled_part), second * 1_000)
        used += round(quota * lets_through)
    return trim


@pytest.mark.parametrize("lets_through", [0.95, 1.0, 1.1, 1.25])
def test_what_gets_through_becomes_the_share(lets_through: float) -> None:
    trim = lived(lets_through, 60)
    assert trim.per_mille * lets_through == pytest.approx(ONE, rel=0.01)


def test_nobody_is_judged_before_windows_have_passed() -> None:
    assert lived(1.2, (SETTLES_MS + JUDGED_MS) // 1_000).per_mille == ONE


def test_who_is_not_throttled_says_nothing_of_the_quota() -> None:
    assert lived(0.3, 100, throttled_part=0.1).per_mille == ONE


def test_it_ends_somewhere() -> None:
    assert lived(9.0, 200).per_mille == LOWEST
    assert lived(0.1, 200).per_mille == HIGHEST


def test_another_share_keeps_the_factor_and_is_judged_anew() -> None:
    trim = lived(1.1, 60)
    factor = trim.per_mille
    assert trim.of(2 * T, 0, 0, 60_000) == 2 * T * factor // ONE
    assert trim.of(2 * T, 10**9, 0, 60_000 + SETTLES_MS - 1) == 2 * T * factor // ONE


def test_a_small_share_is_never_nothing() -> None:
    assert Trim().of(1, 0, 0, 0) == 1
