"""Who is kept from expiring."""

from broker.control.held import HeldInstances

MINE = "iaaaaaaaaaaa.orders"
THEIRS = "ibbbbbbbbbbb.orders"


def test_an_instance_is_held_until_it_is_released() -> None:
    held = HeldInstances(lambda: 5)
    held.hold("iaaaaaaaaaaa")
    assert held.owns(MINE) and not held.owns(THEIRS) and not held.owns("__consumer_offsets")
    held.release("iaaaaaaaaaaa")
    assert not held.owns(MINE)


def test_after_a_restore_everything_is_kept_for_a_while_and_served() -> None:
    now_ms = [10]
    held = HeldInstances(lambda: now_ms[0])
    held.keep_all(12)
    assert held.all_kept_for_ms == 2
    assert held.owns(MINE) and held.owns("__consumer_offsets")
    assert "iaaaaaaaaaaa" not in held, "it is not deleted nor absent"
    now_ms[0] = 12
    assert held.all_kept_for_ms == 0 and not held.owns(MINE)
