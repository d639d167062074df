"""Who may connect: the instance's whitelist, those of topics, and who was refused."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path

from tenants.api import models, views
from tenants.api.context import Asker, Found, Plane, at
from tenants.api.versions import Versioned

router = APIRouter(prefix="/v1/instances/{instance}", tags=["whitelist"])
Topic = Annotated[str, Path(max_length=249, description="the name of the topic", examples=["orders"])]


@router.get("/whitelist")
async def whitelist(found: Found, version: Versioned) -> models.WhitelistView:
    """The instance's whitelist."""
    version.tell(found)
    return views.whitelist_view(found)


@router.put("/whitelist")
async def set_whitelist(
    plane: Plane, caller: Asker, found: Found, version: Versioned, body: models.WhitelistSet
) -> models.WhitelistView:
    """Replace the whitelist. Connections of addresses it no longer admits are cut within a second."""
    changed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).set_whitelist,
        caller,
        found.id,
        None,
        body.allow_all,
        body.cidrs,
    )
    version.tell(changed)
    return views.whitelist_view(changed)


@router.patch("/whitelist")
async def change_whitelist(
    plane: Plane, caller: Asker, found: Found, version: Versioned, body: models.WhitelistChange
) -> models.WhitelistView:
    """Add and remove entries."""
    changed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).change_whitelist,
        caller,
        found.id,
        None,
        body.add,
        body.remove,
        body.allow_all,
    )
    version.tell(changed)
    return views.whitelist_view(changed)


@router.get("/topics/{topic}/whitelist")
async def topic_whitelist(found: Found, version: Versioned, topic: Topic) -> models.TopicWhitelistView:
    """A topic's own whitelist, or that it inherits. The topic need not exist yet."""
    version.tell(found)
    return views.topic_whitelist_view(found, topic)


@router.put("/topics/{topic}/whitelist")
async def set_topic_whitelist(
    plane: Plane,
    caller: Asker,
    found: Found,
    version: Versioned,
    topic: Topic,
    body: models.TopicWhitelistSet,
) -> models.TopicWhitelistView:
    """Give a topic its own whitelist: an address then needs both, the instance's and this one."""
    changed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).set_topic_whitelist,
        caller,
        found.id,
        None,
        topic,
        body.cidrs,
    )
    version.tell(changed)
    return views.topic_whitelist_view(changed, topic)


@router.delete("/topics/{topic}/whitelist")
async def inherit_whitelist(
    plane: Plane, caller: Asker, found: Found, version: Versioned, topic: Topic
) -> models.TopicWhitelistView:
    """Have a topic inherit the instance's whitelist."""
    changed = await asyncio.to_thread(
        plane.instances.expecting(version.expected).set_topic_whitelist, caller, found.id, None, topic, None
    )
    version.tell(changed)
    return views.topic_whitelist_view(changed, topic)


@router.get("/refusals")
async def refusals(plane: Plane, found: Found) -> models.RefusalList:
    """The last 50 addresses that were refused, and closed connections by cause."""
    items = [
        models.RefusalView(address=one.address, at=at(one.at_ms), gateway=one.gateway)
        for one in plane.gateways.refusals(found.id)
    ]
    return models.RefusalList(items=items, closed=plane.gateways.closed(found.id))
