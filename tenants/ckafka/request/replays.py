"""Which signatures have been used, so that a request that somebody recorded changes nothing again. Pure.

SDKs sign neither the action nor a nonce, only body, host and a time in seconds. So two requests of one second
may well have the same signature, and a recorded one fits every action that takes its body. A read may be
repeated while its time is valid. A change may not: its action has not been asked for with this signature
before, and the signature was not seen first more than a moment ago. Clients that sign `x-tc-action` bind it
to the action besides.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from tenants.ckafka.request.signature import SKEW_MAX_S

MOMENT_MS: Final = 3_000
"""Requests that a client signs within one second arrive within this time of each other."""
SEEN_MAX_PER_TENANT: Final = 20_000
"""Signatures that are remembered of one tenant; the oldest one goes first."""
_VALID_MS: Final = 2 * SKEW_MAX_S * 1000


class _Seen(NamedTuple):
    first_ms: int
    changes: frozenset[str]


class Replays:
    """The signatures of a while by tenant, who alone can make valid ones."""

    def __init__(self) -> None:
        self._tenants: dict[str, OrderedDict[str, _Seen]] = {}

    def admits(self, tenant: str, signature: str, action: str, now_ms: int, *, changes: bool) -> bool:
        """Whether a request with a valid signature may be served; it counts as seen."""
        seen = self._tenants.setdefault(tenant, OrderedDict())
        while seen and now_ms - next(iter(seen.values())).first_ms > _VALID_MS:
            seen.popitem(last=False)
        before = seen.get(signature, _Seen(now_ms, frozenset()))
        if changes and (action in before.changes or now_ms - before.first_ms > MOMENT_MS):
            return False
        seen[signature] = before._replace(changes=before.changes | {action}) if changes else before
        if len(seen) > SEEN_MAX_PER_TENANT:
            seen.popitem(last=False)
        return True
