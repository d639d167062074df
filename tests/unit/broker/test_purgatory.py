"""Who waits for which partition."""

from broker.fetches.purgatory import Purgatory, Waiting

_A, _B = ("a", 0), ("b", 1)


def test_due_when_enough_has_come() -> None:
    purgatory: Purgatory[Waiting[tuple[str, int]]] = Purgatory()
    waiting = Waiting([_A, _B], 100)
    purgatory.add(waiting)
    assert purgatory.appended(_A, 60) == []
    assert purgatory.appended(("c", 0), 600) == []
    assert purgatory.appended(_B, 40) == [waiting]
    assert purgatory.watching(_A) == [waiting]


def test_removed_everywhere() -> None:
    purgatory: Purgatory[Waiting[tuple[str, int]]] = Purgatory()
    waiting = Waiting([_A, _B, _A], 1)
    purgatory.add(waiting)
    assert purgatory.size == 1
    assert purgatory.remove(waiting)
    assert not purgatory.remove(waiting)
    assert purgatory.size == 0
    assert purgatory.appended(_A, 10) == []
    assert purgatory._watchers == {}, "nothing is left behind"
