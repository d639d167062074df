"""What followers acknowledged, on the disk: a second control plane on the same store knows of them too."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from sqlalchemy import Connection, delete, select

from contracts.specs import ConsumerKind
from tenants.store import schema
from tenants.store.engine import put


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """One process that follows the feed, as it was heard of last by any control plane of the store."""

    consumer: str
    kind: ConsumerKind
    feed_id: str
    applied_revision: int
    heard_at_ms: int
    """Epoch time."""
    cluster_id: str | None = None
    node_id: int | None = None
    objections: dict[str, str] = field(default_factory=dict)
    """Deleted instance id -> why it would not obey an order to purge it."""


def save(connection: Connection, followers: Iterable[Follower], forget_before_ms: int) -> None:
    """Write what was heard now, and forget gateways and masters not heard of for long; brokers never."""
    table = schema.followers
    for one in followers:
        values = asdict(one) | {"kind": one.kind.value}
        put(connection, table, {"consumer": values.pop("consumer")}, values)
    connection.execute(
        delete(table).where(table.c.heard_at_ms < forget_before_ms, table.c.kind != ConsumerKind.BROKER.value)
    )


def all_of(connection: Connection) -> list[Follower]:
    """Everybody who was heard of."""
    rows = connection.execute(select(schema.followers).order_by(schema.followers.c.consumer)).mappings()
    return [Follower(**(dict(row) | {"kind": ConsumerKind(row["kind"])})) for row in rows]
