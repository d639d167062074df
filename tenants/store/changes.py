"""What followers of the feed have not seen yet, read from the outbox."""

from sqlalchemy import Connection, select

from contracts.specs import FeedResponse
from tenants.rules.model import spec_of
from tenants.store import instances, lineages, registry, schema
from tenants.store.engine import feed_position, newest
from tenants.store.lineages import Position, Verdict


def since(connection: Connection, position: Position) -> FeedResponse:
    """The changes behind a position, or everything for a follower that cannot go on from there."""
    feed_id, _revision = feed_position(connection)
    latest = newest(connection)
    if lineages.judge(connection, position) is not Verdict.GOES_ON:
        return FeedResponse(
            feed_id=feed_id,
            revision=latest.revision,
            mark=latest.mark,
            full=True,
            parent=lineages.parent(connection),
            instances=tuple(spec_of(one) for one in instances.not_purged(connection)),
            clusters=tuple(registry.clusters(connection)),
        )
    changed = _subjects(connection, position.revision)
    wanted_clusters = changed[instances.OUTBOX_CLUSTER]
    return FeedResponse(
        feed_id=feed_id,
        revision=latest.revision,
        mark=latest.mark,
        full=False,
        continues=True,
        parent=lineages.parent(connection),
        instances=tuple(
            sorted(
                map(spec_of, instances.by_ids(connection, changed[instances.OUTBOX_INSTANCE])),
                key=lambda spec: spec.revision,
            )
        ),
        clusters=tuple(
            one
            for one in registry.clusters(connection, also_removed=True)
            if one.cluster_id in wanted_clusters
        ),
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
