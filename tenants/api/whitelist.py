"""Who may connect: the instance's whitelist, those of topics, and who was refused."""

from tenants.api import models, views
from tenants.api.context import Found, Plane, at
from tenants.api.routers import api_router
from tenants.api.topics import Topic
from tenants.api.versions import Changing, Versioned
from tenants.backend.topics import check_name
from tenants.usecases.instances import Instances

router = api_router("/v1/instances/{instance}", "whitelist")


@router.get("/whitelist")
async def whitelist(found: Found, version: Versioned) -> models.WhitelistView:
    """The instance's whitelist."""
    version.tell(found)
    return views.whitelist_view(found)


@router.put("/whitelist")
async def set_whitelist(change: Changing, body: models.WhitelistSet) -> models.WhitelistView:
    """Replace the whitelist. Connections of addresses it no longer admits are cut within a second."""
    return views.whitelist_view(await change.make(Instances.set_whitelist, body.allow_all, body.cidrs))


@router.patch("/whitelist")
async def change_whitelist(change: Changing, body: models.WhitelistChange) -> models.WhitelistView:
    """Add and remove entries."""
    changed = await change.make(Instances.change_whitelist, body.add, body.remove, body.allow_all)
    return views.whitelist_view(changed)


@router.get("/topics/{topic}/whitelist")
async def topic_whitelist(found: Found, version: Versioned, topic: Topic) -> models.TopicWhitelistView:
    """A topic's own whitelist, or that it inherits. The topic need not exist yet."""
    version.tell(found)
    return views.topic_whitelist_view(found, topic)


@router.put("/topics/{topic}/whitelist")
async def set_topic_whitelist(
    change: Changing, topic: Topic, body: models.TopicWhitelistSet
) -> models.TopicWhitelistView:
    """Give a topic its own whitelist: an address then needs both, the instance's and this one."""
    check_name(topic)
    changed = await change.make(Instances.set_topic_whitelist, topic, body.cidrs)
    return views.topic_whitelist_view(changed, topic)


@router.delete("/topics/{topic}/whitelist")
async def inherit_whitelist(change: Changing, topic: Topic) -> models.TopicWhitelistView:
    """Have a topic inherit the instance's whitelist."""
    check_name(topic)
    changed = await change.make(Instances.set_topic_whitelist, topic, None)
    return views.topic_whitelist_view(changed, topic)


@router.get("/refusals")
async def refusals(plane: Plane, found: Found) -> models.RefusalList:
    """The last 50 addresses that were refused, and closed connections by cause."""
    items = [
        models.RefusalView(address=one.address, at=at(one.at_ms), gateway=one.gateway)
        for one in plane.gateways.refusals(found.id)
    ]
    return models.RefusalList(items=items, closed=plane.gateways.closed(found.id))
