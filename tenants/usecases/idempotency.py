"""Requests that are sent again with the Idempotency-Key of the first are carried out once.

Source: draft-ietf-httpapi-idempotency-key-header-07.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from runtime.clock import epoch_ms
from tenants.credentials import sha256
from tenants.rules.model import Caller
from tenants.store import idempotency
from tenants.store.engine import Store
from tenants.store.idempotency import ABANDONED_MS, KEPT_MS, Claim, Known

BODY_BYTES_MAX: Final = 32 * 1024
"""Size of an answer that is kept for who sends the request again."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Carry it out; `earlier`: what was done by an attempt whose answer was lost."""

    claim: Claim
    earlier: str | None = None


class Idempotency:
    """The use cases. All block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, caller: Caller, key: str, fingerprint: str) -> Begun | Known:
        """Claim a key for a request, or say what is known of an earlier one with it."""
        claim = Claim(
            caller=f"{caller.tenant}/{caller.kind}:{caller.id or caller.name}"[:200],
            key_sha256=sha256(key),
            tenant=caller.tenant,
            fingerprint=fingerprint,
            token=secrets.token_hex(8),
        )
        now_ms = epoch_ms()
        with self._store.write() as connection:
            known = idempotency.find(connection, claim)
            if known is not None and now_ms - known.began_at_ms < KEPT_MS:
                is_abandoned = known.status is None and now_ms - known.began_at_ms >= ABANDONED_MS
                if not is_abandoned or known.fingerprint != fingerprint:
                    return known
                if known.subject is not None:
                    return Begun(claim, known.subject)
            idempotency.begin(connection, claim, now_ms)
        return Begun(claim)

    def end(self, claim: Claim, status: int, headers: dict[str, str], body: bytes | None) -> None:
        """Keep the answer, unless it was refused or failed. `body` None: not to be kept."""
        with self._store.write() as connection:
            if status >= 400:
                idempotency.release(connection, claim, epoch_ms())
                return
            is_kept = body is not None and len(body) <= BODY_BYTES_MAX
            text = body.decode() if body is not None and is_kept else None
            idempotency.answer(connection, claim, status, headers, text)
