"""Replies leave in request order, whoever answers."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.session.ordering import Exchange, ReplyQueue


def test_a_local_answer_waits_for_older_requests() -> None:
    queue = ReplyQueue()
    first, second, third = (Exchange(3, 1, number) for number in range(3))
    queue.forwarded(first)
    assert queue.answered(second, b"second") is None
    queue.forwarded(third)
    assert queue.head() is first
    assert queue.finish_head() == [b"second"]
    assert queue.head() is third
    assert queue.finish_head() == []
    assert queue.answered(Exchange(3, 1, 4), b"now") == b"now"
    assert len(queue) == 0


def test_only_an_empty_queue_rests() -> None:
    queue = ReplyQueue()
    queue.forwarded(Exchange(3, 1, 1))
    queue.rest()
    assert len(queue) == 1
    queue.finish_head()
    assert queue.waiting is not None
    queue.rest()
    assert queue.waiting is None and queue.head() is None
    queue.forwarded(Exchange(3, 1, 2))
    assert len(queue) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_any_interleaving_keeps_the_order(steps: list[tuple[bool, int]]) -> None:
    queue, sent, number = ReplyQueue(), [], 0

    def backend_answers() -> None:
        head = queue.head()
        if head is not None:
            sent.append(head.correlation_id)
            sent.extend(int(reply) for reply in map(bytes, queue.finish_head()))

    for local, answers in steps:
        exchange = Exchange(3, 1, number)
        if local:
            reply = queue.answered(exchange, b"%d" % number)
            sent += [] if reply is None else [int(reply)]
        else:
            queue.forwarded(exchange)
        number += 1
        for _ in range(answers):
            backend_answers()
    while queue.head() is not None:
        backend_answers()
    assert sent == list(range(number))
