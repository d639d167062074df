"""Kafka's rules of who may lead."""

import pytest

from broker.controller.elections import (
    Choice,
    elect_for_shutdown,
    elect_from,
    elect_offline,
    first_leader,
)


def among(*brokers: int):  # type: ignore[no-untyped-def]
    return lambda broker: broker in brokers


@pytest.mark.parametrize(
    ("replicas", "isr", "alive", "unclean", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 3), False, Choice(2, (2, 3))),
        ((1, 2, 3), (3, 1), (3, 1), False, Choice(1, (3, 1))),
        ((1, 2, 3), (1,), (2, 3), False, Choice(-1, (1,))),
        ((1, 2, 3), (1,), (3,), True, Choice(3, (3,), is_unclean=True)),
        ((1, 2, 3), (1, 2), (2,), True, Choice(2, (2,))),
        ((1, 2), (1, 2), (), True, Choice(-1, (1, 2))),
    ],
    ids=[
        "next in order",
        "order of replicas, not of the ISR",
        "nobody in sync",
        "unclean",
        "clean if possible",
        "all dead",
    ],
)
def test_offline(replicas, isr, alive, unclean, expected) -> None:  # type: ignore[no-untyped-def]
    assert elect_offline(replicas, isr, among(*alive), among(*alive), unclean) == expected


def test_a_broker_on_its_way_out_stays_in_the_isr_but_is_not_elected() -> None:
    assert elect_offline((1, 2, 3), (1, 2, 3), among(3), among(2, 3), False) == Choice(3, (2, 3))


def test_the_first_target_in_sync() -> None:
    assert elect_from((4, 5, 6), (1, 5, 6), among(4, 5, 6)) == 5
    assert elect_from((4, 5, 6), (1, 2), among(4, 5, 6)) is None


def test_a_new_partition() -> None:
    assert first_leader((3, 1, 2), among(1, 2), among(1, 2, 3)) == Choice(1, (3, 1, 2))
    assert first_leader((3, 1), among(), among()) is None


def test_shutdown() -> None:
    assert elect_for_shutdown((1, 2, 3), (1, 2, 3), among(2, 3), leaving=(1,)) == Choice(2, (2, 3))
    assert elect_for_shutdown((1, 2), (1,), among(2), leaving=(1,)) is None
