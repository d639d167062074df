"""Histories of the feed: whether a follower's position is part of ours, and the beginning of another one.

A store that was restored from an older copy has the same feed id, and draws revisions again that were told
before, with other contents. Followers give it away: they acknowledge what it never wrote (ADR-0015).
"""

from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Connection, insert, select

from contracts.specs import Parent
from tenants.rules.lifecycle import State
from tenants.store import instances, schema
from tenants.store.engine import Drawn, feed_position, new_feed_id, newest, set_feed_id


class Position(NamedTuple):
    """What a follower says that it has applied."""

    feed_id: str
    revision: int
    mark: str


class Verdict(StrEnum):
    """What a position is to this store."""

    GOES_ON = "goes on"
    """Part of this history; what changed since is known."""
    STARTS_ANEW = "starts anew"
    """A revision of another feed, of a sibling of this one, or too old to tell."""
    NEVER_WRITTEN = "never written"
    """A revision of this feed that is not in it: the store went back to an older copy."""


def judge(connection: Connection, position: Position) -> Verdict:
    """Compare a position with what the store wrote."""
    feed_id, _revision = feed_position(connection)
    if position.revision <= 0:
        return Verdict.STARTS_ANEW
    latest = newest(connection)
    is_ours = position.feed_id == feed_id
    shared = latest.revision if is_ours else _shared_with(connection, feed_id, position.feed_id)
    if shared is None or position.revision > shared:
        return Verdict.NEVER_WRITTEN if is_ours else Verdict.STARTS_ANEW
    mark = _mark_of(connection, position.revision, latest)
    if mark is None:
        return Verdict.STARTS_ANEW
    if mark != position.mark:
        return Verdict.NEVER_WRITTEN if is_ours else Verdict.STARTS_ANEW
    return Verdict.GOES_ON


def _mark_of(connection: Connection, revision: int, latest: Drawn) -> str | None:
    """What a revision was marked with; None: so old that it is forgotten."""
    if revision == latest.revision:
        return latest.mark
    return connection.scalar(select(schema.outbox.c.mark).where(schema.outbox.c.revision == revision))


def _shared_with(connection: Connection, feed_id: str, ancestor: str) -> int | None:
    """The last revision that a feed shares with one it came from; None: it did not."""
    parents = {row[0]: (row[1], row[2]) for row in connection.execute(select(schema.lineages))}
    shared: int | None = None
    while feed_id != ancestor:
        if feed_id not in parents:
            return None
        feed_id, revision = parents[feed_id]
        shared = revision if shared is None else min(shared, revision)
    return shared


def parent(connection: Connection) -> Parent | None:
    """What the feed went on from, None for a store's first."""
    feed_id, _revision = feed_position(connection)
    row = connection.execute(select(schema.lineages).where(schema.lineages.c.feed_id == feed_id)).first()
    return None if row is None else Parent(feed_id=row[1], revision=row[2])


def begin(connection: Connection, now_ms: int) -> str:
    """Go on as another feed, in a write transaction; its id.

    No deletion of before is an order in it: what was being purged waits again, for an operator.
    """
    before, revision = feed_position(connection)
    feed_id = new_feed_id()
    connection.execute(
        insert(schema.lineages).values(
            feed_id=feed_id, parent_feed_id=before, parent_revision=revision, began_at_ms=now_ms
        )
    )
    set_feed_id(connection, feed_id)
    for instance in instances.in_states(connection, [State.PURGING]):
        instances.save(connection, instance.with_(state=State.DELETED), now_ms)
    return feed_id
