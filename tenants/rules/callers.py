"""How much of the console callers hold at once: live views, and requests under way. Pure; one loop's."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from tenants.rules.errors import TooMany, Unavailable
from tenants.rules.model import Caller

T = TypeVar("T")
STREAMS_MAX: Final = 500
"""Live views of everybody."""
STREAMS_MAX_PER_TENANT: Final = 100
"""Streams of all users and keys of a tenant."""
STREAMS_MAX_PER_CALLER: Final = 20
"""Streams of one key, or one user's sessions."""
REQUESTS_MAX_PER_TENANT: Final = 48
"""Under way at once, live views aside; operators are not bounded."""
VIEWS_MAX: Final = 12
"""Views of messages under way in one console process, of everybody."""
VIEWS_MAX_PER_TENANT: Final = 4
"""Views of messages under way, of all a tenant's instances."""
VIEWS_MAX_PER_INSTANCE: Final = 2
"""Views of messages under way, of all topics of an instance."""
_RETRY_S: Final = 2


class OpenStreams:
    """Live views by who looks. Operators' count as their tenant's."""

    def __init__(self) -> None:
        self._callers: Counter[tuple[str, str, str]] = Counter()
        self._tenants: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many are open."""
        return self._tenants.total()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """While one more is open. Raises: TooMany, Unavailable when it may not be."""
        who = (caller.tenant, caller.kind, caller.name)
        if self._callers[who] >= STREAMS_MAX_PER_CALLER:
            raise TooMany(f"{STREAMS_MAX_PER_CALLER} live views are open with your key or login", _RETRY_S)
        if self._tenants[caller.tenant] >= STREAMS_MAX_PER_TENANT:
            raise TooMany(f"{STREAMS_MAX_PER_TENANT} live views of your tenant are open", _RETRY_S)
        if len(self) >= STREAMS_MAX:
            raise Unavailable("too many live views are open: close some pages")
        self._callers[who] += 1
        self._tenants[caller.tenant] += 1
        try:
            yield
        finally:
            _less(self._callers, who)
            _less(self._tenants, caller.tenant)


class RequestsUnderWay:
    """Requests by tenant; those of operators are not bounded here."""

    def __init__(self) -> None:
        self._tenants: Counter[str] = Counter()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """While one more is under way. Raises: TooMany."""
        if self._tenants[caller.tenant] >= REQUESTS_MAX_PER_TENANT and not caller.is_operator:
            raise TooMany(f"{REQUESTS_MAX_PER_TENANT} requests of your tenant are under way", _RETRY_S)
        self._tenants[caller.tenant] += 1
        try:
            yield
        finally:
            _less(self._tenants, caller.tenant)


class ViewsUnderWay:
    """Views of messages: each may hold some tens of MiB while it lasts."""

    def __init__(self) -> None:
        self._instances: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()

    @contextmanager
    def one(self, tenant: str, instance_id: str) -> Iterator[None]:
        """While one more is under way. Raises: TooMany, Unavailable."""
        if self._instances[instance_id] >= VIEWS_MAX_PER_INSTANCE:
            raise TooMany(
                f"{VIEWS_MAX_PER_INSTANCE} views of this instance's messages are under way", _RETRY_S
            )
        if self._tenants[tenant] >= VIEWS_MAX_PER_TENANT:
            raise TooMany(f"{VIEWS_MAX_PER_TENANT} views of messages of your tenant are under way", _RETRY_S)
        if self._tenants.total() >= VIEWS_MAX:
            raise Unavailable("too many messages are looked at now. Try again in a few seconds")
        self._instances[instance_id] += 1
        self._tenants[tenant] += 1
        try:
            yield
        finally:
            _less(self._instances, instance_id)
            _less(self._tenants, tenant)


def _less(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
