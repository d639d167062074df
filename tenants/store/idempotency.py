"""Rows of requests that may be sent again: whose they are, what they asked, what was done, what was answered.

The audit log marks a request's row in the transaction that does what it asks. So it is done once, whatever
process dies when, and whoever else took the request over meanwhile.
"""

from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, update

from tenants.rules.errors import Conflict
from tenants.store.schema import idempotency_keys as table

KEPT_MS: Final = 24 * 3600 * 1000
"""From the first request with an Idempotency-Key until the key means nothing any more."""
KEYS_MAX_PER_TENANT: Final = 1_000
"""Idempotency-Keys that are remembered for the callers of one tenant; the oldest answered ones go first."""
ABANDONED_MS: Final = 60_000
"""A request that has no answer after this may be carried out by who sends it again: its process died."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One request, as one process carries it out."""

    caller: str
    key_sha256: str
    tenant: str
    fingerprint: str
    token: str
    """The token of this attempt."""


@dataclass(frozen=True, slots=True)
class Known:
    """A request that came before."""

    fingerprint: str
    began_at_ms: int
    subject: str | None
    """What it was done to; None: nothing was done (yet)."""
    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    """None with a status: the answer is not kept."""


claimed: Final[ContextVar[Claim | None]] = ContextVar("claimed", default=None)
"""What the request that this task answers has claimed."""


def find(connection: Connection, claim: Claim) -> Known | None:
    """What is known of a request with this key."""
    row = connection.execute(select(table).where(*_of(claim))).mappings().first()
    if row is None:
        return None
    headers: dict[str, str] = row["headers"] or {}
    return Known(
        row["fingerprint"], row["began_at_ms"], row["subject"], row["status"], dict(headers), row["body"]
    )


def begin(connection: Connection, claim: Claim, now_ms: int) -> None:
    """Remember that it is carried out; what is too old or too much is forgotten."""
    connection.execute(delete(table).where(table.c.began_at_ms < now_ms - KEPT_MS))
    connection.execute(delete(table).where(*_of(claim)))
    kept = connection.scalar(select(func.count()).select_from(table).where(table.c.tenant == claim.tenant))
    if (kept or 0) >= KEYS_MAX_PER_TENANT:
        oldest = (
            select(table.c.caller, table.c.key_sha256)
            .where(table.c.tenant == claim.tenant, table.c.status.is_not(None))
            .order_by(table.c.began_at_ms)
            .limit((kept or 0) - KEYS_MAX_PER_TENANT + 1)
        )
        for caller, key_sha256 in connection.execute(oldest).all():
            of_it = (table.c.caller == caller, table.c.key_sha256 == key_sha256)
            connection.execute(delete(table).where(*of_it))
    connection.execute(insert(table).values(**asdict(claim), began_at_ms=now_ms))


def mark(connection: Connection, subject: str) -> None:
    """What the request of this task asks is done now, in this transaction. Raises: Conflict when another
    attempt has taken the request over."""
    claim = claimed.get()
    if claim is None:
        return
    subject_or_first = func.coalesce(table.c.subject, subject[:300])
    marked = connection.execute(update(table).where(*_own(claim)).values(subject=subject_or_first))
    if marked.rowcount != 1:
        raise Conflict("another request with this Idempotency-Key has taken over: send it again")


def answer(
    connection: Connection, claim: Claim, status: int, headers: dict[str, str], body: str | None
) -> None:
    """Keep the answer."""
    values: dict[str, Any] = {"status": status, "headers": headers, "body": body}
    connection.execute(update(table).where(*_own(claim)).values(**values))


def release(connection: Connection, claim: Claim, now_ms: int) -> None:
    """It was refused, or failed: the key is free again. Where something was done all the same, who sends the
    request again is shown that."""
    connection.execute(delete(table).where(*_own(claim), table.c.subject.is_(None)))
    connection.execute(update(table).where(*_own(claim)).values(began_at_ms=now_ms - ABANDONED_MS))


def _of(claim: Claim) -> tuple[Any, Any]:
    return table.c.caller == claim.caller, table.c.key_sha256 == claim.key_sha256


def _own(claim: Claim) -> tuple[Any, Any, Any]:
    return *_of(claim), table.c.token == claim.token
