"""Limits that control processes share through Redis; without it, each process has them for itself.

Both count at once, so that a Redis that goes away, or loses everything, leaves the limits of this process.
Redis's own clock is used: those of the processes differ. Calls block.
"""

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from runtime.clock import monotonic_ms
from runtime.redis_link import RedisAway, RedisLink
from tenants.rules.model import Caller
from tenants.rules.rate_limit import ApiRates, Bucket, RateLimit, Verdict, judge
from traffic.login_limit import (
    FAILURES_MAX_PER_ADDRESS,
    FAILURES_MAX_PER_PAIR,
    WINDOW_MS,
    LoginLimit,
)

if TYPE_CHECKING:
    from redis import Redis

_PREFIX: Final = "portico:"
_NOW_MS: Final = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
_WAIT: Final = (
    _NOW_MS
    + """
local wait = 0
for i, key in ipairs(KEYS) do
  local allowed = tonumber(ARGV[i + 1])
  local failures = redis.call('LRANGE', key, -allowed, -1)
  if #failures >= allowed then
    wait = math.max(wait, tonumber(failures[1]) + tonumber(ARGV[1]) - now)
  end
end
return wait
"""
)
_FAILED: Final = (
    _NOW_MS
    + """
for i, key in ipairs(KEYS) do
  redis.call('RPUSH', key, string.format('%.0f', now))
  redis.call('LTRIM', key, -tonumber(ARGV[2]), -1)
  redis.call('PEXPIRE', key, ARGV[1])
end
return 0
"""
)
_TAKE: Final = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stored, over = {}, false
for i, key in ipairs(KEYS) do
  stored[i] = tonumber(redis.call('GET', key) or '0')
  local after = math.max(stored[i], now) + tonumber(ARGV[2 * i - 1])
  if after - now > tonumber(ARGV[2 * i]) then over = true end
end
local told = {string.format('%.0f', now)}
for i, key in ipairs(KEYS) do
  told[i + 1] = string.format('%.0f', stored[i])
  if not over then
    local after = math.max(stored[i], now) + tonumber(ARGV[2 * i - 1])
    redis.call('SET', key, string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000) + 1)
  end
end
return told
"""


class LoginLimits:
    """`LoginLimit` of this process, and of all of them where there is a Redis."""

    def __init__(self, link: RedisLink | None) -> None:
        self._link = link
        self._own = LoginLimit()
        self._turn = threading.Lock()

    def retry_after_ms(self, address: str, user: str) -> int:
        """0 when an attempt is allowed, else how long to wait."""
        with self._turn:
            own_ms = self._own.retry_after_ms(address, user, monotonic_ms())
        allowed = (WINDOW_MS, FAILURES_MAX_PER_PAIR, FAILURES_MAX_PER_ADDRESS)
        shared_ms = self._ask(_WAIT, _login_keys(address, user), allowed, writes=False)
        return max(own_ms, int(shared_ms or 0))

    def failed(self, address: str, user: str) -> None:
        """Count a wrong password."""
        with self._turn:
            self._own.failed(address, user, monotonic_ms())
        self._ask(_FAILED, _login_keys(address, user), (WINDOW_MS, FAILURES_MAX_PER_ADDRESS), writes=True)

    def succeeded(self, address: str, user: str) -> None:
        """Forget the failures of this user at this address."""
        with self._turn:
            self._own.succeeded(address, user)
        if self._link is not None:
            pair, _address = _login_keys(address, user)
            try:
                self._link.call("login", lambda redis: redis.delete(pair))
            except RedisAway:
                return  # they end with their minute

    def _ask(self, script: str, keys: Sequence[str], arguments: Sequence[int], *, writes: bool) -> Any:
        """None: Redis does not answer, or there is none."""
        if self._link is None:
            return None
        try:
            return self._link.call("login", _running(script, keys, arguments), writes=writes)
        except RedisAway:
            return None


class RequestRates:
    """`RateLimit` of this process, and of all of them where there is a Redis."""

    def __init__(self, link: RedisLink | None, rates: ApiRates) -> None:
        self._link = link
        self._rates = rates
        self._own = RateLimit()
        self._turn = threading.Lock()

    def buckets(self, caller: Caller) -> list[Bucket]:
        """What a request of a caller is charged to."""
        who = f"{_PREFIX}rate:{caller.kind}:{caller.id or caller.name}"
        if caller.is_operator:
            return [Bucket(who, self._rates.operator)]
        tenant = f"{_PREFIX}rate:tenant:{caller.tenant}"
        return [Bucket(who, self._rates.key), Bucket(tenant, self._rates.tenant)]

    def take(self, caller: Caller, *more: Bucket) -> Verdict:
        """Charge one request, to the caller's buckets and to `more`, or refuse it."""
        buckets = [*self.buckets(caller), *more]
        with self._turn:
            own = self._own.take(buckets, monotonic_ms() * 1_000)
        shared = self._take_shared(buckets) if own.is_admitted else None
        return own if shared is None else shared

    def _take_shared(self, buckets: Sequence[Bucket]) -> Verdict | None:
        if self._link is None:
            return None
        arguments = [value for _key, quota in buckets for value in (quota.interval_us, quota.depth_us)]
        keys = [bucket.key for bucket in buckets]
        try:
            told = self._link.call("rate", _running(_TAKE, keys, arguments), writes=True)
        except RedisAway:
            return None
        now_us, *stored_us = (int(one) for one in told)
        return judge(buckets, stored_us, now_us)


def _login_keys(address: str, user: str) -> tuple[str, str]:
    """What is typed as a user name may be a password: it is hashed."""
    pair = hashlib.sha256(f"{address}\0{user}".encode(errors="surrogatepass")).hexdigest()
    return f"{_PREFIX}login:{pair}", f"{_PREFIX}login:{hashlib.sha256(address.encode()).hexdigest()}"


def _running(script: str, keys: Sequence[str], arguments: Sequence[int]) -> Any:
    """Runs a script by its digest; the script goes only to a server that does not know it (any more)."""

    def run(redis: "Redis") -> Any:
        return redis.register_script(script)(keys=list(keys), args=list(arguments))

    return run
