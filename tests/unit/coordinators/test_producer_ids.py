"""Producer ids: never given twice, also when brokers race for a block, fall, or lose the tree."""

import asyncio
from pathlib import Path

import pytest

from broker.coordinators.producer_ids import BLOCK_SIZE, ProducerIds
from broker.metadata.znode_paths import PRODUCER_ID_BLOCK
from broker.metadata.znodes import encode_producer_id_block
from contracts.tree import Create, Node, TreeUnavailable
from runtime.tree.local import LocalTree
from tests.unit.coordinators.world import until


async def _draw(ids: ProducerIds, count: int) -> list[int | None]:
    drawn: list[int | None] = []
    for _ in range(count):
        ids.draw(drawn.append)
    await until(lambda: len(drawn) == count)
    return drawn


async def test_ids_are_unique_over_brokers_and_restarts(tmp_path: Path) -> None:
    tree = LocalTree(tmp_path / "tree.sqlite")
    await tree.start()
    brokers = [ProducerIds(tree, number) for number in (1, 2, 1)]
    drawn = await asyncio.gather(*(_draw(ids, 1_500) for ids in brokers))
    every = [each for of_one in drawn for each in of_one]
    assert None not in every
    assert len(set(every)) == 4_500
    await tree.aclose()


async def test_the_next_block_is_taken_before_this_one_ends(tmp_path: Path) -> None:
    tree = LocalTree(tmp_path / "tree.sqlite")
    await tree.start()
    ids = ProducerIds(tree, 1)
    await _draw(ids, BLOCK_SIZE - 50)
    next_block = encode_producer_id_block(1, BLOCK_SIZE, 2 * BLOCK_SIZE - 1)
    while (node := await tree.get(PRODUCER_ID_BLOCK)) is None or node.data != next_block:
        await asyncio.sleep(0.005)
    at_once: list[int | None] = []
    for _ in range(100):
        ids.draw(at_once.append)
    assert at_once == list(range(BLOCK_SIZE - 50, BLOCK_SIZE + 50))
    await tree.aclose()


async def test_a_block_that_apache_kafka_took_is_not_given_again(tmp_path: Path) -> None:
    tree = LocalTree(tmp_path / "tree.sqlite")
    await tree.start()
    await tree.commit([Create(PRODUCER_ID_BLOCK, encode_producer_id_block(9, 5_000, 5_999))])
    assert await _draw(ProducerIds(tree, 1), 1) == [6_000]
    await tree.aclose()


async def test_ids_that_others_have_are_skipped_by_every_broker(tmp_path: Path) -> None:
    """Also in blocks that were taken before, and by brokers that come later."""
    tree = LocalTree(tmp_path / "tree.sqlite")
    await tree.start()
    brokers = [ProducerIds(tree, 1), ProducerIds(tree, 2)]
    for ids in brokers:
        assert await _draw(ids, 1) != [None]
    for ids in brokers:
        assert await ids.skip(70_500)
        assert await ids.skip(10), "what is behind already needs no skipping"
    drawn = [each for ids in (*brokers, ProducerIds(tree, 3)) for each in await _draw(ids, 3)]
    assert all(each is not None and each > 70_500 for each in drawn)
    assert len(set(drawn)) == 9
    await tree.aclose()


async def test_no_id_without_the_tree_and_again_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = LocalTree(tmp_path / "tree.sqlite")
    await tree.start()
    ids = ProducerIds(tree, 1)

    async def lost(_path: str) -> Node | None:
        raise TreeUnavailable("no connection")

    with monkeypatch.context() as patched:
        patched.setattr(tree, "get", lost)
        assert await _draw(ids, 3) == [None] * 3
    assert await _draw(ids, 1) == [0]
    await tree.aclose()
