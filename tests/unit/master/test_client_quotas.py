"""What is set in an Apache Kafka, given leases and what is set: changes, their pace, and what is removed."""

from master.quota.client_quotas import (
    BATCH_MAX,
    CHANGED_EVERY_MS,
    SETTLED_AFTER_MS,
    Change,
    Entity,
    Rates,
    SetQuotas,
    backstop,
    changes,
    entity_of,
    leftovers,
)

ONE = "iaaaaaaaaaaa"
TWO = "ibbbbbbbbbbb"
AT_ONE, AT_TWO = Entity(ONE, 1), Entity(ONE, 2)


def test_an_entity_is_known_by_its_client_id() -> None:
    assert AT_TWO.client_id == f"{ONE}@2"
    assert entity_of(f"{ONE}@2") == AT_TWO
    for other in ("", "portico", f"{ONE}@", f"{ONE}@x", f"{ONE}.1", "orders@1", f"{ONE}@-1", f"{ONE}@٣"):
        assert entity_of(other) is None


def test_what_nobody_has_set_is_set_at_once() -> None:
    assert changes({AT_ONE: Rates(5, 6)}, {}, {}, 0) == [Change(AT_ONE, Rates(5, 6))]


def test_a_twentieth_is_changed_at_once_and_less_when_it_has_settled() -> None:
    known, at_ms = {AT_ONE: Rates(1_000, 1_000)}, {AT_ONE: 0}

    def due(produce: int, now_ms: int) -> bool:
        return bool(changes({AT_ONE: Rates(produce, 1_000)}, known, at_ms, now_ms))

    assert not due(1_051, CHANGED_EVERY_MS - 1)
    assert due(1_051, CHANGED_EVERY_MS) and due(949, CHANGED_EVERY_MS)
    assert not due(1_050, SETTLED_AFTER_MS - 1)
    assert due(1_001, SETTLED_AFTER_MS) and not due(1_000, SETTLED_AFTER_MS)


def test_a_rise_that_would_be_in_the_way_does_not_wait_and_a_fall_does() -> None:
    known = {AT_ONE: Rates(800, 800)}
    for wanted, due in (((901, 800), True), ((800, 901), True), ((900, 1), False), ((1, 1), False)):
        assert bool(changes({AT_ONE: Rates(*wanted)}, known, {AT_ONE: 0}, 1)) is due


def test_quotas_stand_a_fourth_above_what_gateways_hold_to() -> None:
    assert backstop(Rates(1_000_000, 4)) == Rates(1_250_000, 5)
    assert backstop(Rates(1, 3)) == Rates(1, 3), "never less"


def test_one_request_has_a_bound_and_the_rest_follows() -> None:
    wanted = {Entity(ONE, node): Rates(1, 1) for node in range(BATCH_MAX + 7)}
    quotas = SetQuotas()
    for left in (BATCH_MAX, 7, 0):
        due = quotas.due(wanted, 0)
        assert len(due) == left
        for change in due:
            quotas.done(change, 0)
    assert quotas.known == wanted


def test_entities_that_wait_for_a_change_come_in_the_order_of_their_last_one() -> None:
    wanted = {Entity(ONE, node): Rates(2, 2) for node in range(BATCH_MAX + 1)}
    known = dict.fromkeys(wanted, Rates(1, 1))
    at_ms = {entity: 0 if entity.node_id == BATCH_MAX else 1 for entity in wanted}
    assert changes(wanted, known, at_ms, CHANGED_EVERY_MS + 1)[0].entity.node_id == BATCH_MAX


def test_only_what_limits_nothing_is_removed() -> None:
    known = [AT_ONE, AT_TWO, Entity(TWO, 1)]
    assert not leftovers(known, served={ONE, TWO}, with_topics=(), nodes={1, 2})
    assert not leftovers(known, served=(), with_topics={ONE, TWO}, nodes={1, 2}), "absence removes nothing"
    assert leftovers(known, served={ONE}, with_topics={ONE}, nodes={1, 2}) == [Change(Entity(TWO, 1), None)]
    assert leftovers(known, served={ONE, TWO}, with_topics=(), nodes={1}) == [Change(AT_TWO, None)]


def test_quotas_stand_while_the_cluster_is_heard_of() -> None:
    quotas = SetQuotas()
    quotas.done(Change(AT_ONE, Rates(1, 1)), 0)
    assert not quotas.stands(AT_ONE, 0), "nobody has said that it is the cluster that was met"
    quotas.trust(10)
    assert quotas.stands(AT_ONE, 9) and not quotas.stands(AT_ONE, 10)
    assert not quotas.stands(AT_TWO, 9)
    quotas.learn({AT_TWO: Rates(3, 3)})
    assert quotas.stands(AT_TWO, 9) and not quotas.stands(AT_ONE, 9), "somebody has removed them"
    quotas.done(Change(AT_TWO, None), 9)
    assert not quotas.known
