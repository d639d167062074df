"""What a follower makes of the feed: absence deletes nothing, an order only in the history it knows."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.specs import Deletion, FeedResponse, InstanceSpec, InstanceState
from runtime.spec_book import Changed, OutOfStepError, SavedBook, SpecBook

A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


def spec(instance_id: str = A, **changes: Any) -> InstanceSpec:
    base = InstanceSpec(
        revision=1,
        instance_id=instance_id,
        tenant="t",
        name="n",
        state=InstanceState.ACTIVE,
        cluster_id="c",
        produce_rate_bytes_per_s=1,
        consume_rate_bytes_per_s=1,
        capacity_bytes=1,
    )
    return msgspec.structs.replace(base, **changes)


def gone(
    state: InstanceState, lineage: str, instance_id: str = A, *, confirmed: bool = False
) -> InstanceSpec:
    deletion = Deletion(deleted_at_ms=1, purge_after_ms=2, lineage=lineage, confirmed=confirmed)
    return spec(instance_id, state=state, deletion=deletion)


def full(book: SpecBook, feed_id: str, *specs: InstanceSpec, revision: int = 9, **more: Any) -> Changed:
    return book.take(
        FeedResponse(feed_id=feed_id, revision=revision, full=True, instances=specs, **more), now_ms=77
    )


def news(book: SpecBook, *specs: InstanceSpec, revision: int = 10) -> Changed:
    return book.take(
        FeedResponse(feed_id=book.feed_id, revision=revision, full=False, continues=True, instances=specs),
        now_ms=78,
    )


def following(*specs: InstanceSpec) -> SpecBook:
    book = SpecBook()
    full(book, "one", *specs)
    return book


@pytest.mark.parametrize(
    ("feed_id", "specs", "more"),
    [
        ("other", (), {}),
        ("other", (spec(B),), {}),
        ("one", (), {}),
        ("one", (spec(B),), {}),
        ("one", (), {"continues": True}),
        ("one", (spec(B),), {"revision": 3}),
    ],
    ids=["empty feed", "another feed", "empty answer", "shorter answer", "shorter, going on", "went back"],
)
def test_what_a_full_answer_leaves_out_is_absent_and_nothing_is_purged(
    feed_id: str, specs: tuple[InstanceSpec, ...], more: dict[str, Any]
) -> None:
    book = following(spec(A), spec(B))
    changed = full(book, feed_id, *specs, **more)
    assert changed.purged == {}
    assert A in changed.instance_ids
    assert A not in book.instances
    assert (book.absent[A].spec, book.absent[A].since_ms) == (spec(A), 77)


def test_absence_outlives_restarts_and_ends_when_the_feed_tells_again() -> None:
    book = following(spec(A), spec(B))
    full(book, "other")
    again = SpecBook()
    saved = msgspec.json.decode(msgspec.json.encode(book.save()), type=SavedBook)
    again.restore(saved)
    assert again.everything().instance_ids == {A, B}
    assert sorted(again.absent) == [A, B]
    assert again.instances == {}
    full(again, "other")
    assert sorted(again.absent) == [A, B], "absent is absent for as long as nobody says more"
    changed = full(again, "one", spec(A), spec(B))
    assert changed.instance_ids == {A, B}
    assert again.absent == {}


def test_changes_of_another_feed_or_from_the_past_are_not_taken() -> None:
    book = following(spec(A))
    with pytest.raises(OutOfStepError):
        book.take(FeedResponse(feed_id="other", revision=20, full=False, instances=(spec(B),)), 0)
    with pytest.raises(OutOfStepError):
        book.take(FeedResponse(feed_id="one", revision=8, full=False, instances=(spec(B),)), 0)
    assert list(book.instances) == [A]


def test_an_order_in_the_history_that_told_of_it_is_obeyed_once() -> None:
    book = following(spec(A))
    news(book, gone(InstanceState.DELETED, "one"))
    assert book.instances[A].state is InstanceState.DELETED
    assert book.refusals == {}
    changed = news(book, gone(InstanceState.PURGED, "one"), revision=11)
    assert list(changed.purged) == [A]
    assert A not in book.instances and A not in book.absent
    assert news(book, gone(InstanceState.PURGED, "one"), revision=12).purged == {}


def test_who_was_away_during_the_grace_obeys_when_its_position_was_part_of_the_history() -> None:
    book = following(spec(A))
    assert list(news(book, gone(InstanceState.PURGED, "one")).purged) == [A]


@pytest.mark.parametrize("feed_id", ["restored", "one"], ids=["new lineage", "position not of this history"])
def test_an_order_of_another_history_is_refused_and_the_data_kept(feed_id: str) -> None:
    book = following(spec(A))
    changed = full(book, feed_id, gone(InstanceState.PURGED, feed_id))
    assert changed.purged == {}
    assert book.absent[A].spec == spec(A)
    assert "another feed" in book.refusals[A]


def test_a_deletion_of_another_history_is_objected_to_before_it_is_an_order() -> None:
    book = following(spec(A), spec(B))
    full(book, "two", gone(InstanceState.DELETED, "two"), spec(B))
    assert "another feed" in book.refusals[A]
    again = SpecBook()
    again.restore(book.save())
    assert A in again.refusals, "also after a restart"
    news(again, gone(InstanceState.PURGED, "two"), revision=11)
    assert A in again.absent
    # B lives in the new history: what becomes of it there is an order
    news(again, gone(InstanceState.DELETED, "two", B), revision=12)
    assert B not in again.refusals
    assert list(news(again, gone(InstanceState.PURGED, "two", B), revision=13).purged) == [B]


def test_a_deletion_named_after_another_feed_is_no_order() -> None:
    book = following(spec(A))
    assert news(book, gone(InstanceState.PURGED, "forged")).purged == {}
    assert news(book, spec(A, state=InstanceState.PURGED), revision=11).purged == {}
    assert A in book.absent


def test_an_operators_word_is_obeyed_whatever_was_known() -> None:
    book = following(spec(A))
    full(book, "two")
    assert list(news(book, gone(InstanceState.PURGED, "two", confirmed=True)).purged) == [A]
    assert book.absent == {} and book.refusals == {}
    assert list(news(book, gone(InstanceState.PURGED, "two", B, confirmed=True)).purged) == [B]


def test_nothing_known_nothing_purged() -> None:
    book = SpecBook()
    assert full(book, "one", gone(InstanceState.PURGED, "one")).purged == {}
    assert (book.instances, book.absent, book.refusals) == ({}, {}, {})


def test_taken_back_it_is_served_again() -> None:
    book = following(spec(A))
    news(book, gone(InstanceState.DELETED, "one"))
    assert news(book, spec(A, revision=12), revision=12).instance_ids == {A}
    assert book.instances[A].state is InstanceState.ACTIVE


_STATES = st.sampled_from([InstanceState.ACTIVE, InstanceState.DELETED, InstanceState.PURGED])
_SPECS = st.builds(
    lambda state, lineage, who: gone(state, lineage, who) if state.is_gone else spec(who),
    _STATES,
    st.sampled_from(["one", "two"]),
    st.sampled_from([A, B]),
)
_ANSWERS = st.tuples(
    st.sampled_from(["one", "two"]), st.booleans(), st.booleans(), st.lists(_SPECS, max_size=2)
)


@given(st.lists(_ANSWERS, max_size=12))
def test_whatever_is_answered_only_what_this_history_deleted_is_purged(
    answers: list[tuple[str, bool, bool, list[InstanceSpec]]],
) -> None:
    book = following(spec(A), spec(B))
    for number, (feed_id, is_full, continues, specs) in enumerate(answers, 10):
        response = FeedResponse(
            feed_id=feed_id, revision=number, full=is_full, continues=continues, instances=tuple(specs)
        )
        same = book.feed_id == feed_id
        known = {*book.instances, *book.absent}
        try:
            changed = book.take(response, 0)
        except OutOfStepError:
            assert not is_full and not same and not continues
            continue
        for instance_id, order in changed.purged.items():
            assert order.deletion is not None and order.deletion.lineage == feed_id
            assert instance_id in known or any(
                each.instance_id == instance_id and each.state is not InstanceState.PURGED for each in specs
            )
        assert known <= {*book.instances, *book.absent, *changed.purged}
        assert not book.instances.keys() & book.absent.keys()
