"""Layers of configs in the tree: any broker writes them, as in Kafka, and the controller tells everyone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.configs.topic_configs import ConfigFault
from broker.controller.api import OK, ConfigEntity, Verdict
from broker.metadata import znode_paths
from broker.metadata.metadata_cache import MetadataCache, MetadataChange
from broker.metadata.znodes import ZnodeDamaged, decode_config, encode_config, encode_config_change
from contracts.tree import ANY_VERSION, Check, Create, Op, SetData, Tree, TreeConflict, TreeUnavailable

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
_ATTEMPTS: Final = 5
_TIMEOUT_S: Final = 10.0


class ConfigChange(NamedTuple):
    """One entity's change. `edit` is called with the layer as it is now and returns the new one; it is pure
    and may be called twice. A ConfigFault it raises is answered with INVALID_CONFIG."""

    entity: ConfigEntity
    edit: Callable[[Mapping[str, str]], Mapping[str, str]]


class ConfigWriter:
    """Edits layers by compare-and-set, and waits until this broker has been told."""

    def __init__(self, tree: Tree, metadata: MetadataCache) -> None:
        self._tree = tree
        self._metadata = metadata
        self._told: dict[ConfigEntity, list[asyncio.Event]] = {}
        metadata.on_change(self._metadata_changed)

    async def alter(self, changes: Iterable[ConfigChange], *, validate_only: bool) -> list[Verdict]:
        """Make each change on its own."""
        return [await self._alter(change, validate_only) for change in changes]

    async def _alter(self, change: ConfigChange, validate_only: bool) -> Verdict:
        told = asyncio.Event()
        waiting = self._told.setdefault(change.entity, [])
        waiting.append(told)
        try:
            for _ in range(_ATTEMPTS):
                try:
                    return await self._attempt(change, told, validate_only)
                except TreeConflict:
                    continue  # somebody else changed it in between
            return Verdict(ErrorCode.unknown_server_error, "The configs are being changed by others.")
        except ConfigFault as fault:
            return Verdict(ErrorCode.invalid_config, str(fault))
        except TreeUnavailable:
            message = "The cluster's metadata cannot be reached: the change may or may not be made."
            return Verdict(ErrorCode.request_timed_out, message)
        finally:
            waiting.remove(told)
            if not waiting:
                self._told.pop(change.entity, None)

    async def _attempt(self, change: ConfigChange, told: asyncio.Event, validate_only: bool) -> Verdict:
        """Raises: ConfigFault, TreeConflict, TreeUnavailable."""
        entity = change.entity
        path = _path(entity)
        node = await self._tree.get(path)
        layer: Mapping[str, str] = {}
        if node is not None:
            try:
                layer = decode_config(node.data)
            except ZnodeDamaged as damage:
                return Verdict(ErrorCode.unknown_server_error, str(damage))
        changed = change.edit(layer)
        if validate_only:
            return OK
        ops: list[Op] = []
        if entity.kind == TOPICS:
            if await self._tree.get(znode_paths.topic_path(entity.name)) is None:
                return Verdict(ErrorCode.unknown_topic_or_partition)
            ops.append(Check(znode_paths.topic_path(entity.name), ANY_VERSION))
        data = encode_config(changed)
        ops.append(Create(path, data) if node is None else SetData(path, data, node.stat.version))
        notice = encode_config_change(path.removeprefix("/config/"))
        ops.append(Create(znode_paths.CONFIG_CHANGE_PREFIX, notice, sequential=True))
        await self._tree.commit(ops)
        if self._known(entity) != changed:
            told.clear()
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await told.wait()
            except TimeoutError:
                message = "The change is made; the controller has not told this broker yet."
                return Verdict(ErrorCode.request_timed_out, message)
        return OK

    def _known(self, entity: ConfigEntity) -> Mapping[str, str]:
        if entity.kind == TOPICS:
            return self._metadata.configs(entity.name)
        return self._metadata.broker_configs.get(entity.name, {})

    def _metadata_changed(self, change: MetadataChange) -> None:
        for entity, waiting in self._told.items():
            if (entity.name in change.configs) if entity.kind == TOPICS else change.broker_configs:
                for told in waiting:
                    told.set()


def _path(entity: ConfigEntity) -> str:
    if entity.kind == TOPICS:
        return znode_paths.topic_config_path(entity.name)
    return znode_paths.broker_config_path(entity.name)
