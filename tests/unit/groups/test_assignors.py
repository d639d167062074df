"""Server-side assignors: everything is given once, evenly where subscriptions allow, and little moves."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.assignors import ASSIGNORS, Subscription, uniform

TOPICS = [UUID(int=number) for number in range(1, 5)]
_members = st.dictionaries(
    st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=8
)
_sizes = st.fixed_dictionaries({topic_id: st.integers(0, 9) for topic_id in TOPICS})
_former = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 12), min_size=1)),
)


@given(name=st.sampled_from(sorted(ASSIGNORS)), subscribed=_members, sizes=_sizes, former=_former)
@settings(max_examples=200)
def test_each_partition_goes_to_one_of_its_topics_subscribers(
    name: str,
    subscribed: dict[str, frozenset[UUID]],
    sizes: dict[UUID, int],
    former: dict[str, dict[UUID, frozenset[int]]],
) -> None:
    members = {key: Subscription(None, topic_ids) for key, topic_ids in subscribed.items()}
    target = ASSIGNORS[name](members, sizes, former)
    assert target.keys() == members.keys()
    for topic_id, size in sizes.items():
        readers = [key for key in members if topic_id in subscribed[key]]
        given_out = sorted(index for key in members for index in target[key].get(topic_id, ()))
        assert given_out == (list(range(size)) if readers else [])
        assert all(topic_id not in target[key] for key in members if key not in readers)


@given(count=st.integers(1, 9), size=st.integers(0, 60), former=_former)
def test_equals_differ_by_one_at_most(
    count: int, size: int, former: dict[str, dict[UUID, frozenset[int]]]
) -> None:
    members = {key: Subscription(None, frozenset(TOPICS[:1])) for key in "abcdefghi"[:count]}
    counts = [sum(map(len, each.values())) for each in uniform(members, {TOPICS[0]: size}, former).values()]
    assert max(counts) - min(counts) <= 1


def test_a_new_member_takes_only_its_share() -> None:
    members = {key: Subscription(None, frozenset(TOPICS[:1])) for key in "abc"}
    before = uniform(members, {TOPICS[0]: 12}, {})
    after = uniform({**members, "d": members["a"]}, {TOPICS[0]: 12}, before)
    for key in members:
        assert after[key][TOPICS[0]] < before[key][TOPICS[0]]
    assert len(after["d"][TOPICS[0]]) == 3


def test_who_can_read_less_is_served_first() -> None:
    members = {"a": Subscription(None, frozenset(TOPICS[:2])), "b": Subscription(None, frozenset(TOPICS[:1]))}
    target = uniform(members, {TOPICS[0]: 4, TOPICS[1]: 4}, {})
    assert target["b"] == {TOPICS[0]: frozenset(range(4))}
