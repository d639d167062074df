"""Pieces of what waits for another broker: bounded, and fair to each instance."""

from broker.coordinators.fair_queue import FairQueue


def _queue(*items: tuple[str, int]) -> FairQueue[str]:
    """Items named by owner and number, of so many bytes."""
    queue: FairQueue[str] = FairQueue()
    for number, (owner, size_bytes) in enumerate(items):
        queue.add(owner, f"{owner}{number}", size_bytes)
    return queue


def test_who_has_much_does_not_hold_back_who_has_little() -> None:
    queue = _queue(*[("a", 30)] * 5, ("b", 10), ("b", 10), ("b", 10))
    assert queue.take(70) == ["a0", "b5", "b6", "b7"], "the same bytes for each"
    assert queue.take(70) == ["a1", "a2"]
    assert queue.take(70) == ["a3", "a4"]
    assert not queue and queue.take(70) == []


def test_whom_a_piece_had_no_room_for_comes_first() -> None:
    queue = _queue(*[("a", 10)] * 3, *[("b", 10)] * 3, *[("c", 10)] * 3)
    assert queue.take(20) == ["a0", "b3"]
    assert queue.take(20) == ["c6", "a1"]
    assert queue.take(20) == ["b4", "c7"]


def test_what_is_larger_than_a_piece_comes_alone() -> None:
    queue = _queue(("a", 10), ("b", 500), ("c", 10))
    assert queue.take(100) == ["a0"]
    assert queue.take(100) == ["b1"]
    assert queue.take(100) == ["c2"]


def test_all_is_what_is_left() -> None:
    queue = _queue(("a", 10), ("b", 10), ("a", 10))
    queue.take(10)
    assert queue.take_all() == ["b1", "a2"] and not queue
