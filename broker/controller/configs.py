"""Layers of configs of topics and brokers: brokers and tools write them, and say so in /config/changes."""

from collections.abc import Iterable

from broker.controller.api import ConfigEntity
from broker.controller.context import UNCLEAN_KEY, ControllerContext
from broker.controller.effects import Cause, Steps, children, note, read, read_one
from broker.controller.leadership import settle
from broker.controller.states import Group, commit_groups
from broker.metadata.znode_paths import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    broker_config_name,
    broker_config_path,
    topic_config_path,
)
from broker.metadata.znodes import ZnodeDamaged, decode_config, decode_config_change
from contracts.tree import Delete, Node

TOPICS_KIND = "topics"
BROKERS_KIND = "brokers"


def _take(context: ControllerContext, entity: ConfigEntity, layer: dict[str, str]) -> Steps[None]:
    """A layer is as the tree has it: the brokers hear of it, and elections that it allows are held."""
    yield note(Cause.CONFIGS_CHANGED, kind=entity.kind, name=entity.name)
    if entity.kind == BROKERS_KIND:
        context.broker_configs = {**context.broker_configs, entity.name: layer}
        context.pending.broker_configs_changed = True
        allows_unclean = entity.name == "" and layer.get(UNCLEAN_KEY) == "true"
        topics: Iterable[str] = context.topics if allows_unclean else ()
    else:
        topic = context.topics.get(entity.name)
        if topic is None:
            return
        topic.configs = layer
        context.pending.metadata_topics[entity.name] = None
        topics = (entity.name,) if layer.get(UNCLEAN_KEY) == "true" else ()
    names = [(topic_name, index) for topic_name in topics for index in context.topics[topic_name].partitions]
    yield from settle(context, names)


def load_broker_configs(context: ControllerContext) -> Steps[None]:
    """Read /config/brokers."""
    names = yield from children(BROKER_CONFIGS)
    nodes = yield from read(f"{BROKER_CONFIGS}/{name}" for name in names)
    layers = {}
    for name, node in zip(names, nodes, strict=True):
        layer = yield from _decoded(f"{BROKER_CONFIGS}/{name}", node)
        if layer is not None:
            layers[broker_config_name(name)] = layer
    context.broker_configs = layers


def _decoded(path: str, node: Node | None) -> Steps[dict[str, str] | None]:
    if node is None:
        return {}
    try:
        return decode_config(node.data)
    except ZnodeDamaged as error:
        yield note(Cause.NODE_DAMAGED, path=path, reason=str(error))
        return None


def on_config_changes(context: ControllerContext) -> Steps[None]:
    """Somebody wrote configs; what is taken in is removed. Raises: Deposed."""
    names = yield from children(CONFIG_CHANGES)
    paths = [f"{CONFIG_CHANGES}/{name}" for name in names]
    entities: dict[ConfigEntity, None] = {}
    for path, node in zip(paths, (yield from read(paths)), strict=True):
        if node is None:
            continue
        try:
            kind, name = decode_config_change(node.data)
        except ZnodeDamaged as error:
            yield note(Cause.NODE_DAMAGED, path=path, reason=str(error))
            continue
        if kind in (TOPICS_KIND, BROKERS_KIND):
            entities[ConfigEntity(kind, broker_config_name(name) if kind == BROKERS_KIND else name)] = None
    for entity in entities:
        is_topic = entity.kind == TOPICS_KIND
        path = topic_config_path(entity.name) if is_topic else broker_config_path(entity.name)
        layer = yield from _decoded(path, (yield from read_one(path)))
        if layer is not None:
            yield from _take(context, entity, layer)
    yield from commit_groups(context, [Group(path, [Delete(path)]) for path in paths])
