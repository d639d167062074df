"""Layers of configs of topics and brokers, changed by a call or by a tool (a node in /config/changes)."""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from broker.controller.api import OK, ConfigChange, ConfigEntity, Verdict
from broker.controller.context import UNCLEAN_KEY, ControllerContext
from broker.controller.effects import Answer, Cause, Steps, children, note, read, read_one
from broker.controller.events import AlterConfigs
from broker.controller.leadership import settle
from broker.controller.states import Group, commit_groups
from broker.topic_configs import ConfigFault
from broker.znode_paths import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    broker_config_name,
    broker_config_path,
    topic_config_path,
)
from broker.znodes import ZnodeDamaged, decode_config, decode_config_change, encode_config
from contracts.tree import Conflict, Create, Delete, Node, SetData, TreeConflict

TOPICS_KIND = "topics"
BROKERS_KIND = "brokers"


def on_alter_configs(context: ControllerContext, call: AlterConfigs) -> Steps[Answer]:
    """Change layers; the answer is for after the brokers have been told. Raises: Deposed."""
    verdicts = []
    for change in call.changes:
        verdicts.append((yield from _alter(context, change, validate_only=call.validate_only)))
    return Answer(call.call_id, verdicts)


def _alter(context: ControllerContext, change: ConfigChange, *, validate_only: bool) -> Steps[Verdict]:
    kind, name = change.entity
    if kind == TOPICS_KIND and name not in context.topics:
        return Verdict(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    path = topic_config_path(name) if kind == TOPICS_KIND else broker_config_path(name)
    while True:
        node = yield from read_one(path)
        try:
            layer = dict(change.edit(decode_config(node.data) if node is not None else {}))
        except (ConfigFault, ZnodeDamaged) as fault:
            return Verdict(ErrorCode.invalid_config, str(fault))
        if validate_only:
            return OK
        data = encode_config(layer)
        op: Create | SetData = Create(path, data)
        if node is not None:
            op = SetData(path, data, node.stat.version)
        outcome = (yield from commit_groups(context, [Group(path, [op])]))[path]
        if not isinstance(outcome, TreeConflict):
            yield from _take(context, change.entity, layer)
            return OK
        if outcome.reason is Conflict.NO_NODE and node is None:
            return Verdict(ErrorCode.unknown_server_error, f"The metadata tree has no place for {path}.")


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
    """A tool wrote configs and says so in /config/changes; what is taken in is removed. Raises: Deposed."""
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
