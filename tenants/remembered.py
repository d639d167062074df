"""Who a session or key is, remembered in Redis for seconds, so that not every request asks the database.

The database says who may; Redis only repeats it. What is remembered is signed with the deployment's secret
and carries its own end, so nobody who can write to Redis makes, moves or prolongs a credential. What was
ended is marked, and the mark outlives every answer that the database gave before. Secrets are never stored,
nor sent: an entry's name is the hash that the database has too. Calls block.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from runtime.clock import epoch_ms
from runtime.redis_link import RedisAway, RedisLink

if TYPE_CHECKING:
    from redis import Redis

REMEMBERED_MS: Final = 10_000
"""So long an ended session or key may still be honoured, where Redis could not be told of its end."""
_ENDED_MS: Final = 60_000
"""How long the mark of an end stays: longer than any question to the database takes."""
_ENDED: Final = b"ended"
_PREFIX: Final = "portico:caller:"
_DIGEST_BYTES: Final = 32


class Remembered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    """A credential as the database had it."""

    kind: str
    """`session` or `key`."""
    id: str
    name: str
    tenant: str
    role: str
    valid_until_ms: int
    """Epoch."""


class CallerMemory:
    """What is remembered of callers; without Redis, or while it does not answer, nothing."""

    def __init__(self, link: RedisLink | None, secret: str | None) -> None:
        """Without a `secret` nothing could be signed, so nothing is remembered."""
        self._link = link if secret else None
        self._secret = (secret or "").encode()

    def find(self, kind: str, token_sha256: str) -> Remembered | None:
        """A caller that was remembered; None: ask the database."""
        if self._link is None:
            return None
        name = _PREFIX + token_sha256
        try:
            stored = self._link.call("caller", lambda redis: redis.get(name))
        except RedisAway:
            return None
        found = None if stored is None else self._opened(token_sha256, stored)
        if found is None or found.kind != kind:
            return None
        now_ms = epoch_ms()
        # One from the future was written by a clock that is ahead of ours: it would last too long here.
        return found if now_ms < found.valid_until_ms <= now_ms + REMEMBERED_MS else None

    def keep(self, token_sha256: str, found: Remembered) -> None:
        """Remember what the database said, unless its end was marked meanwhile."""
        left_ms = found.valid_until_ms - epoch_ms()
        if self._link is None or left_ms <= 0:
            return
        name, sealed = _PREFIX + token_sha256, self._sealed(token_sha256, found)
        try:
            self._link.call("caller", lambda redis: redis.set(name, sealed, nx=True, px=left_ms), writes=True)
        except RedisAway:
            return

    def end(self, tokens_sha256: Iterable[str]) -> None:
        """Sessions or keys have been ended in the database."""
        names = [_PREFIX + one for one in tokens_sha256]
        if self._link is None or not names:
            return

        def mark(redis: "Redis") -> None:
            redis.delete(*names)  # also possible when the server is full
            pipeline = redis.pipeline(transaction=False)
            for name in names:
                pipeline.set(name, _ENDED, px=_ENDED_MS)
            pipeline.execute()

        try:
            self._link.call("caller", mark)
        except RedisAway:
            return  # what is remembered ends by itself

    def _sealed(self, token_sha256: str, found: Remembered) -> bytes:
        body = msgspec.msgpack.encode(found)
        return self._digest(token_sha256, body) + body

    def _opened(self, token_sha256: str, stored: bytes) -> Remembered | None:
        digest, body = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if not hmac.compare_digest(digest, self._digest(token_sha256, body)):
            return None
        try:
            return msgspec.msgpack.decode(body, type=Remembered)
        except msgspec.MsgspecError:  # of another version of this program
            return None

    def _digest(self, token_sha256: str, body: bytes) -> bytes:
        return hmac.new(
            self._secret, b"caller\0" + token_sha256.encode() + b"\0" + body, hashlib.sha256
        ).digest()
