"""Layers of configs in the tree, and the broker that waits to be told."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from uuid import uuid4

import pytest

from broker.cluster.config_writer import BROKERS, TOPICS, ConfigChange, ConfigWriter
from broker.configs.topic_configs import ConfigFault
from broker.controller.api import OK, ConfigEntity
from broker.metadata import znode_paths
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.znodes import decode_config, decode_config_change, encode_config
from contracts.cluster import UpdateMetadataRequest, UpdateMetadataTopicState
from contracts.tree import Create, Op, SetData
from tests.memory_tree import MemoryEnsemble, MemoryTree

_TOPIC = ConfigEntity(TOPICS, "t")


class _World(NamedTuple):
    tree: MemoryTree
    metadata: MetadataCache
    writer: ConfigWriter

    async def layer(self, path: str) -> dict[str, str] | None:
        node = await self.tree.get(path)
        return None if node is None else decode_config(node.data)


@pytest.fixture
async def world() -> AsyncIterator[_World]:
    """A tree with one topic, and a controller that tells of every notice."""
    tree = MemoryEnsemble().session()
    await tree.start()
    await tree.commit([Create(path) for path in znode_paths.PERSISTENT_PATHS])
    await tree.commit([Create(znode_paths.topic_path("t"))])
    metadata, topic_id = MetadataCache(), uuid4()

    async def tell() -> None:
        topic = await tree.get(znode_paths.topic_config_path("t"))
        default = await tree.get(znode_paths.broker_config_path(""))
        configs = decode_config(topic.data) if topic else {}
        metadata.apply(
            UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=1,
                broker_epoch=1,
                topic_states=(UpdateMetadataTopicState(topic="t", topic_id=topic_id, configs=configs),),
                broker_configs={"": decode_config(default.data)} if default else {},
            )
        )

    tasks: list[asyncio.Task[None]] = []
    tree.watch_children(znode_paths.CONFIG_CHANGES, lambda: tasks.append(asyncio.create_task(tell())))
    await tell()
    yield _World(tree, metadata, ConfigWriter(tree, metadata))
    await asyncio.gather(*tasks)


def _set(**configs: str) -> ConfigChange:
    return ConfigChange(_TOPIC, lambda layer: dict(layer) | configs)


async def test_a_change_is_merged_noticed_and_known_here_when_it_is_answered(world: _World) -> None:
    assert await world.writer.alter([_set(a="1")], validate_only=False) == [OK]
    assert await world.writer.alter([_set(b="2")], validate_only=False) == [OK]
    assert world.metadata.configs("t") == {"a": "1", "b": "2"} == await world.layer("/config/topics/t")
    notices = await world.tree.children(znode_paths.CONFIG_CHANGES)
    assert notices is not None
    node = await world.tree.get(f"{znode_paths.CONFIG_CHANGES}/{notices[0]}")
    assert node is not None
    assert decode_config_change(node.data) == ("topics", "t")


async def test_brokers_share_a_default(world: _World) -> None:
    change = ConfigChange(ConfigEntity(BROKERS, ""), lambda layer: {**layer, "log.retention.ms": "5"})
    assert await world.writer.alter([change], validate_only=False) == [OK]
    assert await world.layer("/config/brokers/<default>") == {"log.retention.ms": "5"}
    assert world.metadata.broker_configs[""] == {"log.retention.ms": "5"}


async def test_validation_writes_nothing(world: _World) -> None:
    assert await world.writer.alter([_set(a="1")], validate_only=True) == [OK]
    assert await world.layer("/config/topics/t") is None


async def test_faults_and_missing_topics_have_their_codes(world: _World) -> None:
    def refuse(_: Mapping[str, str]) -> Mapping[str, str]:
        raise ConfigFault("not that")

    fault, missing, good = await world.writer.alter(
        [
            ConfigChange(_TOPIC, refuse),
            ConfigChange(ConfigEntity(TOPICS, "u"), dict),
            _set(a="1"),
        ],
        validate_only=False,
    )
    assert (fault.error_code.name, fault.message) == ("invalid_config", "not that")
    assert missing.error_code.name == "unknown_topic_or_partition"
    assert good == OK, "each on its own"


async def test_a_race_is_decided_by_the_version(world: _World) -> None:
    await world.tree.commit([Create("/config/topics/t", encode_config({"a": "0"}))])
    seen: list[dict[str, str]] = []

    def edit(layer: Mapping[str, str]) -> Mapping[str, str]:
        if not seen:  # somebody else is faster
            data = encode_config({"a": "0", "other": "1"})
            ops: list[Op] = [SetData("/config/topics/t", data)]
            world.tree._ensemble.commit(world.tree.session_id, ops)
        seen.append(dict(layer))
        return {**layer, "mine": "1"}

    assert await world.writer.alter([ConfigChange(_TOPIC, edit)], validate_only=False) == [OK]
    assert await world.layer("/config/topics/t") == {"a": "0", "other": "1", "mine": "1"}
    assert len(seen) == 2


async def test_without_the_tree_the_outcome_is_unknown(world: _World) -> None:
    world.tree.suspend()
    (verdict,) = await world.writer.alter([_set(a="1")], validate_only=False)
    assert verdict.error_code.name == "request_timed_out"
