"""Replies leave in the order of requests."""

from typing import Any, cast

from broker.net.rules.pending_replies import PendingReplies
from broker.requests.call import Call, Ready
from wire.codec import RequestHeader


def _call(number: int) -> Call:
    return Call(RequestHeader(0, 7, number, None, 0, False), None, cast("Any", None), 0)


def _ready(number: int) -> Ready:
    return Ready([bytes([number])], None)


def test_a_reply_waits_for_those_before_it() -> None:
    pending = PendingReplies()
    calls = [_call(number) for number in range(3)]
    for call in calls:
        pending.add(call)
    pending.put(calls[1], _ready(1))
    pending.put(calls[2], _ready(2))
    assert pending.take() is None
    pending.put(calls[0], _ready(0))
    assert [pending.take() for _ in range(4)] == [
        *((call, _ready(number)) for number, call in enumerate(calls)),
        None,
    ]
    assert not pending


def test_one_that_was_not_added_stands_last() -> None:
    pending = PendingReplies()
    first, second = _call(1), _call(2)
    pending.add(first)
    pending.put(second, Ready(None, None))
    assert pending.take() is None
    pending.put(first, _ready(1))
    assert pending.take() == (first, _ready(1))
    assert pending.take() == (second, Ready(None, None))
