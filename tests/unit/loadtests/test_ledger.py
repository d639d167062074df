"""A soak notices every record that is lost or comes twice."""

from loadtests.ledger import Ledger


def seen(sent: int, *numbers: int, refused: int = 0) -> tuple[int, int]:
    """(lost, repeated)."""
    ledger = Ledger()
    ledger.sent, ledger.refused = sent, refused
    for number in numbers:
        ledger.see(number)
    return ledger.lost, ledger.repeated


def test_all_in_order_is_well() -> None:
    assert seen(4, 0, 1, 2, 3) == (0, 0)
    assert seen(0) == (0, 0)


def test_a_gap_is_lost() -> None:
    assert seen(5, 0, 1, 4) == (2, 0)


def test_what_never_comes_is_lost() -> None:
    assert seen(5, 0, 1) == (3, 0)
    assert seen(5) == (5, 0)


def test_what_comes_again_is_repeated() -> None:
    assert seen(3, 0, 1, 1, 0, 2) == (0, 2)


def test_what_was_refused_need_not_come() -> None:
    assert seen(5, 0, 1, 2, 4, refused=1) == (0, 0)
    assert seen(5, 0, 1, 4, refused=1) == (1, 0)
