"""Topics and groups of an instance, read from and written to its cluster."""

from typing import Annotated

from fastapi import Path

from contracts.names import TOPIC_NAME_BYTES_MAX, topic_name_fault
from tenants.api import topic_models, views
from tenants.api.context import Asker, Found, Paging, Plane, Search, after_key, has_text
from tenants.api.routers import api_router
from tenants.api.versions import ContentVersion, ContentVersioned
from tenants.backend import groups as group_backend
from tenants.backend import topics as topic_backend
from tenants.console import Console
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import Fault
from tenants.rules.model import Instance
from tenants.rules.offset_reset import Wish, wish_faults
from tenants.rules.record_time import largest

router = api_router("/v1/instances/{instance}", "topics")
Topic = Annotated[
    str,
    Path(
        max_length=249,
        description="the name of the topic",
        examples=["orders"],
        json_schema_extra={"maxLength": TOPIC_NAME_BYTES_MAX},
    ),
]
Group = Annotated[
    str, Path(min_length=1, max_length=1000, description="the id of the consumer group", examples=["billing"])
]


@router.get("/topics")
async def topics(plane: Plane, found: Found, page: Paging, search: Search = "") -> topic_models.TopicList:
    """The topics, by name."""
    cluster = await plane.cluster(found.cluster_id)
    after = after_key(page, str) or ""
    every = await cluster.topics(found.id)
    shown = [name for name in every if name > after and has_text(name, search)][: page.limit]
    keys = [(name, int(one.partition_index)) for name in shown for one in every[name].partitions]
    sizes = await topic_backend.log_sizes(cluster, found.id, keys)
    stored: dict[str, int] = {}
    for (name, _partition), size in sizes.items():
        stored[name] = stored.get(name, 0) + size
    items = [views.topic_summary(found, name, every[name], stored.get(name)) for name in shown]
    cursor = page.next_cursor(len(items), [shown[-1]] if shown else None)
    return topic_models.TopicList(items=items, next_cursor=cursor)


@router.post("/topics", status_code=201)
async def create_topic(
    plane: Plane,
    caller: Asker,
    found: Found,
    version: ContentVersioned,
    body: topic_models.TopicCreate,
) -> topic_models.TopicView:
    """Create a topic. Clients see it at once."""
    await plane.topics.create(caller, found, body.name, body.partitions, body.configs)
    return await _topic(plane, found, body.name, version)


@router.get("/topics/{topic}")
async def topic(
    plane: Plane, found: Found, version: ContentVersioned, topic: Topic
) -> topic_models.TopicView:
    """One topic: partitions with offsets and sizes, configs, whitelist."""
    return await _topic(plane, found, topic, version)


async def _topic(
    plane: Console, found: Instance, name: str, version: ContentVersion
) -> topic_models.TopicView:
    topic_backend.check_name(name)
    cluster = await plane.cluster(found.cluster_id)
    _metadata, partitions, configs = await topic_backend.describe(cluster, found.id, name)
    version.tell(topic_backend.version_of(len(partitions), configs))
    return views.topic_view(found, name, partitions, configs)


@router.patch("/topics/{topic}")
async def change_topic(
    plane: Plane,
    caller: Asker,
    found: Found,
    version: ContentVersioned,
    topic: Topic,
    body: topic_models.TopicChange,
) -> topic_models.TopicView:
    """Set configs (null: back to the default) and add partitions."""
    topic_backend.check_name(topic)
    await plane.topics.change(caller, found, topic, body.partitions, body.configs, expected=version.expected)
    return await _topic(plane, found, topic, version)


@router.delete("/topics/{topic}", status_code=204)
async def delete_topic(plane: Plane, caller: Asker, found: Found, topic: Topic) -> None:
    """Delete a topic and its records. Its own whitelist stays for a topic of the same name."""
    await plane.topics.delete(caller, found, topic)


@router.post("/topics/{topic}/delete-records")
async def delete_records(
    plane: Plane, caller: Asker, found: Found, topic: Topic, body: topic_models.DeleteRecordsRequest
) -> topic_models.DeleteRecordsResult:
    """Delete records before an offset, of some partitions or (`{}`) all records. Frees their space."""
    topic_backend.check_name(topic)
    before: dict[int, int | None] = {}
    for partition, offset in ((one.partition, one.before_offset) for one in body.partitions or ()):
        earlier = before.get(partition, 0)
        before[partition] = None if offset is None or earlier is None else max(offset, earlier)
    return views.delete_records_view(await plane.topics.delete_records(caller, found, topic, before))


@router.get("/groups", tags=["groups"])
async def groups(plane: Plane, found: Found, page: Paging, search: Search = "") -> topic_models.GroupList:
    """The consumer groups, by name, each with how far it is behind."""
    after = after_key(page, str) or ""
    cluster = await plane.cluster(found.cluster_id)
    every = await group_backend.listing(cluster, found.id)
    shown = [one for one in every if one.name > after and has_text(one.name, search)][: page.limit]
    facts = await plane.lags.of_page(cluster, found.id, shown)
    items = [views.group_summary(one, facts.get(one.name)) for one in shown]
    cursor = page.next_cursor(len(items), [shown[-1].name] if shown else None)
    return topic_models.GroupList(items=items, next_cursor=cursor)


@router.get("/groups/{group:path}", tags=["groups"])
async def group(plane: Plane, found: Found, group: Group) -> topic_models.GroupView:
    """One group: members with what they are assigned, committed offsets with lag."""
    cluster = await plane.cluster(found.cluster_id)
    described, members, offsets = await group_backend.describe(cluster, found.id, group)
    seconds = await plane.lags.of_group(cluster, found.id, offsets)
    committed = [views.committed_view(one, seconds[one.key]) for one in offsets]
    return topic_models.GroupView(
        group=group,
        state=described.group_state,
        protocol_type=described.protocol_type,
        protocol=described.protocol_data,
        members=[views.member_view(one) for one in members],
        offsets=committed,
        lag=sum(one.lag or 0 for one in committed),
        lag_seconds=largest(one.lag_seconds for one in committed),
    )


@router.post("/groups/{group:path}/reset-offsets", tags=["groups"])
async def reset_offsets(
    plane: Plane, caller: Asker, found: Found, group: Group, body: topic_models.ResetOffsetsRequest
) -> topic_models.ResetOffsetsResult:
    """Set the committed offsets of a group without members; a dry run unless `execute` is true."""
    given = {name for name in ("at", "offset", "shift", "offsets") if getattr(body, name) is not None}
    faults = wish_faults(body.to, given)
    if body.topics is not None and body.offsets is not None:
        faults.append(Fault("topics", "means nothing beside `offsets`, which names partitions"))
    names = [one.topic for one in body.topics or ()] + [one.topic for one in body.offsets or ()]
    faults += [Fault("topic", fault) for name in names if (fault := topic_name_fault(name)) is not None]
    if faults:
        raise Invalid(faults)
    wish = Wish(
        body.to,
        None if body.at is None else max(0, round(body.at.timestamp() * 1000)),
        body.offset,
        body.shift,
        {(one.topic, one.partition): one.offset for one in body.offsets or ()},
    )
    asked: dict[str, list[int] | None] = {one.topic: one.partitions for one in body.topics or ()}
    planned = await plane.topics.reset_offsets(caller, found, group, wish, asked, execute=body.execute)
    partitions = [topic_models.ResetOffset(**one._asdict()) for one in planned]
    return topic_models.ResetOffsetsResult(group=group, executed=body.execute, partitions=partitions)


@router.delete("/groups/{group:path}", status_code=204, tags=["groups"])
async def delete_group(plane: Plane, caller: Asker, found: Found, group: Group) -> None:
    """Delete a group without members, and its committed offsets."""
    await plane.topics.delete_group(caller, found, group)
