"""The tree in ZooKeeper does what every tree must."""

from tests.tree_conformance import TreeConformance


class TestInZooKeeper(TreeConformance):
    """With the fixture `tree` of this directory."""
