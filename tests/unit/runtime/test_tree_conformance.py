"""The tree in memory and the one in a file do what every tree must."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts.tree import Tree
from runtime.tree.local import LocalTree
from tests.memory_tree import MemoryEnsemble
from tests.tree_conformance import TreeConformance


class TestInMemory(TreeConformance):
    @pytest.fixture
    async def tree(self) -> AsyncIterator[Tree]:
        tree = MemoryEnsemble().session()
        await tree.start()
        yield tree
        await tree.aclose()


class TestInAFile(TreeConformance):
    @pytest.fixture
    async def tree(self, tmp_path: Path) -> AsyncIterator[Tree]:
        tree = LocalTree(tmp_path / "tree.db")
        await tree.start()
        yield tree
        await tree.aclose()
