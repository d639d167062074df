"""What `portico bench quota` makes of the answers that a load had."""

from itertools import pairwise

import pytest

from ctl.bench.load import Endpoint
from ctl.bench.quota import MOVES_EVERY_S, SETTLES_S, T_BYTES_PER_S, Answer, judged, moving

BEGINS_S = 1_000.0


def _even(from_s: float, to_s: float, part: float, throttle_ms: int = 0) -> list[Answer]:
    """An answer each tenth of a second."""
    count = round((to_s - from_s) * 10)
    size = round(part * T_BYTES_PER_S / 10)
    return [Answer(BEGINS_S + from_s + (n + 0.5) / 10, size, throttle_ms) for n in range(count)]


def test_the_first_two_periods_of_a_move_are_not_judged() -> None:
    turn = judged(
        [
            *_even(0, SETTLES_S, 0.2, throttle_ms=90),
            *_even(SETTLES_S, MOVES_EVERY_S, 1.0),
            *_even(MOVES_EVERY_S, MOVES_EVERY_S + SETTLES_S, 0.2, throttle_ms=90),
            *_even(MOVES_EVERY_S + SETTLES_S, 2 * MOVES_EVERY_S, 0.9),
        ],
        BEGINS_S,
        2,
    )
    assert turn.after_moves == pytest.approx([1.0, 0.9], rel=0.001)
    assert turn.throttled_wrongly == 0
    assert max(turn.spans) == pytest.approx(1.0, rel=0.001)
    assert min(turn.spans) < 0.9


def test_who_waits_while_less_than_was_bought_is_carried_is_throttled_wrongly_once() -> None:
    answers = _even(0, MOVES_EVERY_S, 0.5, throttle_ms=10)
    assert judged(answers, BEGINS_S, 1).throttled_wrongly == pytest.approx(0.1, rel=0.001)
    of_two = [*answers, *(each._replace(size_bytes=0) for each in answers)]
    assert judged(of_two, BEGINS_S, 1).throttled_wrongly == pytest.approx(0.1, rel=0.001)


def test_who_makes_up_for_what_he_could_not_send_is_held_to_what_was_bought() -> None:
    ends_s = SETTLES_S + 4
    answers = [
        *_even(0, SETTLES_S, 0.2, throttle_ms=90),
        *_even(SETTLES_S, ends_s, 1.0, throttle_ms=50),
        *_even(ends_s, MOVES_EVERY_S, 0.75),
    ]
    assert judged(answers, BEGINS_S, 1).throttled_wrongly == 0


def test_each_hot_partition_is_another_brokers() -> None:
    brokers = [Endpoint(1), Endpoint(2), Endpoint(3)]
    led = {partition: brokers[partition % 3] for partition in range(10)}
    hot = moving(led, 8)
    assert len(set(hot)) == 8
    assert all(led[one] != led[two] for one, two in pairwise(hot))
