"""Which ids are an instance's own, and how little is remembered of those that are not."""

from uuid import UUID

from gateway.rules.topic_ids import ASKED_MAX, KNOWN_BEYOND, UNKNOWN_MAX, UNKNOWN_MS, TopicIds

OWN, OTHER = UUID(int=1), UUID(int=2)


def test_what_was_learned_is_not_asked_again() -> None:
    ids = TopicIds()
    assert ids.to_ask([OWN, OTHER, OWN, None], 0) == [OWN, OTHER]
    ids.learn([(OWN, "orders"), (None, "nameless"), (OTHER, None)])
    ids.not_found([OWN, OTHER], 0)
    assert (ids.name(OWN), ids.name(OTHER), ids.name(None)) == ("orders", None, None)
    assert ids.to_ask([OWN, OTHER], UNKNOWN_MS - 1) == []
    assert ids.to_ask([OWN, OTHER], UNKNOWN_MS) == [OTHER]


def test_an_id_that_was_unknown_may_become_the_instances_own() -> None:
    ids = TopicIds()
    ids.not_found([OWN], 0)
    ids.learn([(OWN, "orders")])
    assert ids.name(OWN) == "orders"


def test_a_guesser_is_remembered_in_bounded_memory_and_costs_bounded_questions() -> None:
    ids = TopicIds()
    guesses = [UUID(int=number) for number in range(1, 2 * UNKNOWN_MAX)]
    assert len(ids.to_ask(guesses, 0)) == ASKED_MAX
    ids.not_found(guesses, 0)
    assert len(ids.to_ask(guesses, 0)) == min(ASKED_MAX, len(guesses) - UNKNOWN_MAX)


def test_as_many_ids_are_remembered_as_the_instance_may_have_topics_and_some_of_those_that_are_gone() -> None:
    ids = TopicIds()
    ids.make_room(20_000)
    ids.learn((UUID(int=number), "gone") for number in range(1, KNOWN_BEYOND + 1))
    living = range(KNOWN_BEYOND + 1, KNOWN_BEYOND + 20_001)
    ids.learn((UUID(int=number), "topic") for number in living)
    assert ids.name(UUID(int=1)) == "gone" and ids.knows(UUID(int=number).bytes for number in living)
    ids.learn([(OTHER, "topic")])  # named again: it goes last
    ids.make_room(19_999)
    assert ids.name(UUID(int=1)) is None and ids.name(OTHER) == "topic"
    ids.make_room(0)
    assert ids.knows(UUID(int=number).bytes for number in [OTHER.int, *living[-KNOWN_BEYOND + 1 :]])
    assert ids.name(UUID(int=living[0])) is None
