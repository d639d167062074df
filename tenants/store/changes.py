"""What followers of the feed have not seen yet, read from the outbox."""

from sqlalchemy import Connection, func, select

from contracts.specs import FeedResponse
from tenants.model import spec_of
from tenants.store import instances, registry, schema
from tenants.store.engine import feed_position


def since(connection: Connection, feed_id: str, applied_revision: int) -> FeedResponse:
    """The changes behind a revision of a feed, or everything for a follower that cannot go on from there."""
    current_id, newest = feed_position(connection)
    oldest = connection.scalar(select(func.min(schema.outbox.c.revision)))
    goes_on = (
        feed_id == current_id
        and 0 < applied_revision <= newest
        and (oldest is None or applied_revision >= oldest - 1)
    )
    if not goes_on:
        return FeedResponse(
            feed_id=current_id,
            revision=newest,
            full=True,
            instances=tuple(spec_of(one) for one in instances.not_purged(connection)),
            clusters=tuple(registry.clusters(connection)),
        )
    changed = _subjects(connection, applied_revision)
    wanted_clusters = changed[instances.OUTBOX_CLUSTER]
    return FeedResponse(
        feed_id=current_id,
        revision=newest,
        full=False,
        instances=tuple(
            sorted(
                map(spec_of, instances.by_ids(connection, changed[instances.OUTBOX_INSTANCE])),
                key=lambda spec: spec.revision,
            )
        ),
        clusters=tuple(one for one in registry.clusters(connection) if one.cluster_id in wanted_clusters),
    )


def _subjects(connection: Connection, applied_revision: int) -> dict[str, set[str]]:
    table = schema.outbox
    changed: dict[str, set[str]] = {instances.OUTBOX_INSTANCE: set(), instances.OUTBOX_CLUSTER: set()}
    rows = connection.execute(
        select(table.c.kind, table.c.subject_id).where(table.c.revision > applied_revision)
    )
    for kind, subject_id in rows:
        changed[kind].add(subject_id)
    return changed
