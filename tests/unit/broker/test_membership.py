"""Registration: ids, epochs, expiry."""

import asyncio
import contextlib
import shutil
from itertools import count
from pathlib import Path

import pytest

from broker.cluster.earlier_session import EarlierSession
from broker.cluster.membership import BrokerIdTaken, ForeignCluster, Membership
from broker.metadata import znode_paths
from broker.metadata.znodes import Registration, decode_registration
from contracts.tree import Create, TreeUnavailable
from tests.memory_tree import MemoryEnsemble, MemoryTree
from tests.tree_conformance import eventually

_TIMEOUT_MS = 400


_clock = count(1_700_000_000_000)


def _here(port: int = 9092) -> Registration:
    return Registration(host="127.0.0.1", port=port, timestamp_ms=next(_clock))


async def _member(tree: MemoryTree, cluster_id: str = "c", data_dir: Path | None = None) -> Membership:
    """Without a directory none that remembers."""
    await tree.start()
    earlier = EarlierSession(data_dir or Path("/nowhere"))
    member = Membership(tree, 1, cluster_id, _TIMEOUT_MS, earlier)
    await member.prepare()
    return member


@pytest.fixture
def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble()


async def test_the_epoch_is_the_czxid_of_the_node(ensemble: MemoryEnsemble) -> None:
    tree = ensemble.session()
    member = await _member(tree)
    epoch = await member.register(_here())
    node = await tree.get("/brokers/ids/1")
    assert node is not None
    assert node.stat.ephemeral
    assert epoch == node.stat.czxid == member.broker_epoch
    assert decode_registration(node.data).port == 9092


async def test_a_tree_of_another_cluster_is_refused(ensemble: MemoryEnsemble) -> None:
    await _member(ensemble.session())
    with pytest.raises(ForeignCluster, match="belongs to cluster c, this broker to d"):
        await _member(ensemble.session(), "d")


async def test_all_persistent_nodes_are_made_once(ensemble: MemoryEnsemble) -> None:
    tree = ensemble.session()
    await _member(tree)
    await _member(ensemble.session())
    for path in znode_paths.PERSISTENT_PATHS:
        assert await tree.get(path) is not None, path


async def test_an_id_that_stays_taken_is_told_with_its_owner(ensemble: MemoryEnsemble) -> None:
    first = await _member(ensemble.session())
    await first.register(_here(port=7777))
    second = await _member(ensemble.session())
    with pytest.raises(BrokerIdTaken, match=r"broker id 1 is taken by the broker at 127\.0\.0\.1:7777"):
        await second.register(_here())
    assert second.broker_epoch == -1


async def test_an_earlier_life_is_waited_for(ensemble: MemoryEnsemble) -> None:
    killed = ensemble.session()
    before = await (await _member(killed)).register(_here())
    again = await _member(ensemble.session())
    registering = asyncio.create_task(again.register(_here()))
    await asyncio.sleep(0.05)
    assert not registering.done()
    killed.expire(noticed=False)
    assert await registering > before


async def test_an_earlier_life_of_the_same_directory_is_ended(
    ensemble: MemoryEnsemble, tmp_path: Path
) -> None:
    killed = ensemble.session()
    before = await (await _member(killed, data_dir=tmp_path)).register(_here())
    await killed.commit([Create(znode_paths.CONTROLLER, ephemeral=True)])
    again = await _member(ensemble.session(), data_dir=tmp_path)
    assert await killed.get(znode_paths.CONTROLLER) is None, "its other nodes go too"
    assert await asyncio.wait_for(again.register(_here()), _TIMEOUT_MS / 2000) > before


async def test_what_others_own_is_left_alone(ensemble: MemoryEnsemble, tmp_path: Path) -> None:
    killed, other = ensemble.session(), ensemble.session()
    await (await _member(killed, data_dir=tmp_path)).register(_here())
    killed.expire(noticed=False)
    await (await _member(other)).register(_here())
    await other.commit([Create(znode_paths.CONTROLLER, ephemeral=True)])
    again = await _member(ensemble.session(), data_dir=tmp_path)
    assert await other.get(znode_paths.CONTROLLER) is not None
    with pytest.raises(BrokerIdTaken):
        await again.register(_here())


async def test_a_copy_of_the_directory_ends_nobody(ensemble: MemoryEnsemble, tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    await (await _member(ensemble.session(), data_dir=original)).register(_here())
    shutil.copytree(original, copy)
    second = await _member(ensemble.session(), data_dir=copy)
    with pytest.raises(BrokerIdTaken):
        await second.register(_here())


@pytest.mark.parametrize("content", ["", "x", "zz 1:1", "\u00e9 1:1"])
async def test_a_damaged_note_says_nothing(ensemble: MemoryEnsemble, tmp_path: Path, content: str) -> None:
    (tmp_path / "session").write_bytes(content.encode("latin-1"))
    await (await _member(ensemble.session(), data_dir=tmp_path)).register(_here())


async def test_expiry_gives_a_new_epoch(ensemble: MemoryEnsemble) -> None:
    tree = ensemble.session()
    member = await _member(tree)
    before = await member.register(_here())
    keeping = asyncio.create_task(member.keep(_here))
    tree.suspend()
    tree.resume()
    await asyncio.sleep(0)
    assert member.broker_epoch == before, "the session lives on"
    tree.expire()
    assert member.broker_epoch == -1, "at once: nothing is valid until it is registered again"
    assert member.last_epoch == before, "what is meant for a life before that one is still refused"
    await eventually(lambda: member.broker_epoch > before)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping


class _AnswerLost(MemoryTree):
    """The node is made, but the answer never comes."""

    lost = False

    async def commit(self, ops):  # type: ignore[no-untyped-def]
        results = await super().commit(ops)
        if isinstance(ops[0], Create) and ops[0].ephemeral and not self.lost:
            self.lost = True
            raise TreeUnavailable("the answer is lost")
        return results


async def test_a_node_made_by_an_attempt_without_answer_is_ours(ensemble: MemoryEnsemble) -> None:
    tree = _AnswerLost(ensemble)
    member = await _member(tree)
    here = _here()
    with pytest.raises(TreeUnavailable):
        await member.register(here)
    node = await tree.get("/brokers/ids/1")
    assert node is not None
    assert await member.register(here) == node.stat.czxid
