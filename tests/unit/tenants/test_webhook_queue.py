"""Queues of webhooks as data: who gives way when more messages wait than may."""

from tenants.rules.webhook_queue import (
    LOST,
    NOBODY,
    OPERATORS_PENDING_MAX,
    PENDING_MAX,
    REPLACED,
    SHARE_MAX,
    Waiting,
    unsent,
)


def messages(owner: str, count: int, *, is_critical: bool = False, first: int = 0) -> list[Waiting]:
    return [
        Waiting(f"{owner}-{number}", owner, (f"i-{owner}", "k", str(number)), is_critical)
        for number in range(first, first + count)
    ]


def test_a_tenant_fills_its_share_of_the_operators_queue_and_no_other() -> None:
    told = [*messages("loud", 1000), *messages("other", 1, is_critical=True)]
    ended = unsent(told, is_operators=True)
    assert set(ended) == {f"loud-{number}" for number in range(SHARE_MAX, 1000)}
    assert set(ended.values()) == {LOST}


def test_critical_ones_take_the_places_of_others_and_the_oldest_stay() -> None:
    told = [*messages("acme", SHARE_MAX), *messages("acme", 3, is_critical=True, first=100)]
    assert set(unsent(told, is_operators=True)) == {f"acme-{SHARE_MAX - 1 - number}" for number in range(3)}
    told = [*messages("acme", PENDING_MAX), *messages("acme", 3, is_critical=True, first=1000)]
    assert set(unsent(told, is_operators=False)) == {
        f"acme-{PENDING_MAX - 1 - number}" for number in range(3)
    }


def test_shares_that_are_too_many_together_go_by_turns_and_the_operators_own_come_first() -> None:
    tenants = [f"t{number}" for number in range(OPERATORS_PENDING_MAX // SHARE_MAX * 2)]
    told = [one for tenant in tenants for one in messages(tenant, SHARE_MAX, is_critical=True)]
    told += messages(NOBODY, 2 * SHARE_MAX)
    ended = unsent(told, is_operators=True)
    left = [one for one in told if one.id not in ended]
    assert len(left) == OPERATORS_PENDING_MAX
    assert sum(one.owner == NOBODY for one in left) == 2 * SHARE_MAX
    counts = {tenant: sum(one.owner == tenant for one in left) for tenant in tenants}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_an_alarm_that_comes_and_goes_takes_one_place() -> None:
    about = ("i1", "full", "")
    flips = [Waiting(str(number), "acme", about, True) for number in range(50)]
    assert unsent(flips, is_operators=False) == {str(number): REPLACED for number in range(49)}
    tests = [Waiting(f"test-{number}", NOBODY, None, False) for number in range(3)]
    assert unsent(tests, is_operators=False) == {}, "messages about no alarm are each their own"
