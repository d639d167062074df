"""Properties of the pure tree under random commits of several sessions."""

from hypothesis import given
from hypothesis import strategies as st

from contracts.tree import Check, Create, Delete, Op, SetData, TreeConflict
from runtime.tree.pure import PureTree, Record, split

PATHS = ["/", *(f"/{a}" for a in "ab"), *(f"/{a}/{b}" for a in "ab" for b in "cd"), "/a/c/x"]
NODES = st.sampled_from(PATHS[1:])
VERSIONS = st.sampled_from([-1, 0, 1])
OPS = st.one_of(
    st.builds(Create, NODES, st.binary(max_size=2), ephemeral=st.booleans(), sequential=st.booleans()),
    st.builds(SetData, NODES, st.binary(max_size=2), VERSIONS),
    st.builds(Delete, NODES, VERSIONS),
    st.builds(Check, NODES, VERSIONS),
)
COMMITS = st.lists(st.tuples(st.integers(1, 3), st.lists(OPS, max_size=5)), max_size=12)


def content(tree: PureTree) -> dict[str, Record]:
    return dict(tree._records)


def attempt(tree: PureTree, session: int, ops: list[Op]) -> None:
    before = content(tree)
    names = {path: tree.children(path) for path in before}
    try:
        applied = tree.commit(session, ops)
    except TreeConflict:
        assert content(tree) == before, "a refused commit leaves no trace"
        return
    after = content(tree)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed <= applied.rows.keys()
    tree.restore(applied.before)
    assert content(tree) == before, "a commit can be taken back"
    assert {path: tree.children(path) for path in before} == names
    tree._merge(applied.rows)
    assert content(tree) == after


def check(tree: PureTree) -> None:
    records = content(tree)
    for path, record in records.items():
        children = tree.children(path)
        assert children is not None
        assert record.child_count == len(children) <= record.sequence
        assert not (record.owner and children), "ephemeral nodes have no children"
        if path != "/":
            parent, name = split(path)
            assert name in (tree.children(parent) or [])


@given(COMMITS)
def test_any_commits_keep_the_tree_whole(commits: list[tuple[int, list[Op]]]) -> None:
    tree = PureTree()
    for session, ops in commits:
        attempt(tree, session, ops)
        check(tree)


@given(COMMITS, st.integers(1, 3))
def test_an_expired_session_takes_its_nodes_and_no_others(
    commits: list[tuple[int, list[Op]]], session: int
) -> None:
    tree = PureTree()
    for owner, ops in commits:
        attempt(tree, owner, ops)
    kept = {path for path, record in content(tree).items() if record.owner != session}
    tree.expire(session)
    assert content(tree).keys() == kept
    check(tree)


@given(COMMITS)
def test_a_tree_made_of_its_rows_is_the_same(commits: list[tuple[int, list[Op]]]) -> None:
    tree = PureTree()
    for session, ops in commits:
        attempt(tree, session, ops)
    assert content(PureTree(content(tree).items(), tree.zxid)) == content(tree)
