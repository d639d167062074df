"""The way to an optional Redis: calls with a time budget, a circuit breaker, and nothing that must be there.

Whoever calls has an answer of his own for `RedisAway`. Calls block, so they run in threads. While the circuit
is open no call waits for anything: one thread looks whether the server is back (ADR 24).
"""

import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from prometheus_client import Counter, Gauge, Histogram

from runtime.circuit import Circuit
from runtime.clock import monotonic_ms
from runtime.config import ENVIRONMENT_PREFIX, environment
from runtime.logs import get_logger

if TYPE_CHECKING:
    from redis import Redis

_log = get_logger(__name__)
BUDGET_MS: Final = 100
"""Time of a call to Redis, connecting included: what a request waits at most, once per pause."""
_LOOK_S: Final = 0.1
VARIABLE: Final = ENVIRONMENT_PREFIX + "REDIS_URL"
_SCHEMES: Final = ("redis", "rediss", "unix")
CALLS: Final = Histogram(
    "portico_redis_call_seconds",
    "Calls to Redis that were answered, by what they are for",
    ["purpose"],
    buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
)
FAILED: Final = Counter("portico_redis_calls_failed_total", "Calls that Redis did not carry out", ["cause"])
UP: Final = Gauge(
    "portico_redis_up", "1: Redis answers; 0: it does not, or is full; absent without Redis", ["part"]
)


class RedisAway(Exception):  # noqa: N818 - a state of the server
    """Redis does not carry a call out; `cause` is its metric label."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"redis: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """`redis://[:PASSWORD@]HOST:PORT/DB`, `rediss://` for TLS, `unix://PATH`. Shown without its password."""

    text: str

    def __str__(self) -> str:
        """For people."""
        parts = urlsplit(self.text)
        password = parts.password
        return self.text if password is None else self.text.replace(f":{password}@", ":***@", 1)

    __repr__ = __str__


def parse_redis_url(text: str) -> RedisUrl:
    """Raises: ValueError with a sentence, which does not repeat what may hold a password."""
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in _SCHEMES and bool(parts.path if parts.scheme == "unix" else parts.hostname)
        database = parts.path.strip("/")
        _ = parts.port  # raises for what is not a port
    except ValueError:
        is_whole, database = False, ""
    if not is_whole or (parts.scheme != "unix" and database and not database.isdecimal()):
        raise ValueError(
            "the URL of Redis is redis://[:PASSWORD@]HOST:PORT[/DB], rediss://... or unix://PATH"
        )
    return RedisUrl(text)


def redis_url_argument(text: str) -> RedisUrl:
    """For command lines. Raises: ArgumentTypeError."""
    try:
        return parse_redis_url(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def redis_url_of_environment() -> str | None:
    """Where a password is better than in a command line, which every user of the machine can read."""
    return environment().get(VARIABLE)


class RedisLink:
    """One Redis. Any thread may call; `start` has a thread look for the server, which closes the circuit."""

    def __init__(self, url: RedisUrl, *, budget_ms: int = BUDGET_MS) -> None:
        self.url = url
        self.budget_ms = budget_ms
        self._client = self.client()
        self._turn = threading.Lock()
        self._reach = Circuit()
        self._reach.failed("not asked yet", monotonic_ms() - 1_000)
        self._room = Circuit()
        """Open while the server is full: reads go on."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def answers(self) -> bool:
        """Whether it may be asked; it may be full."""
        return self._reach.is_closed

    @property
    def trouble(self) -> str | None:
        """Why Redis is not used now, in a few words; None: it is."""
        return self._reach.cause or self._room.cause

    def client(self) -> "Redis":
        """A client with the budget of a call, for who needs connections of his own."""
        return _client(self.url, self.budget_ms)

    def start(self) -> None:
        """Look for the server now, and whenever it was lost."""
        self._look()
        self._thread = threading.Thread(target=self._keep_looking, name="redis", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connections."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def call(self, purpose: str, ask: "Callable[[Redis], Any]", *, writes: bool = False) -> Any:
        """Ask for something. Raises: RedisAway, at once while the circuit is open.

        `writes`: needs memory of the server, which may have none.
        """
        with self._turn:
            if not self._reach.is_closed:
                raise RedisAway(self._reach.cause or "")
            if writes and not self._room.is_closed and not self._room.is_due(monotonic_ms()):
                raise RedisAway(self._room.cause or "")
        began = time.perf_counter()
        try:
            answer = ask(self._client)
        except Exception as error:
            cause = cause_of(error)
            if cause is None:
                raise
            self._note_failure(cause, error)
            raise RedisAway(cause) from error
        CALLS.labels(purpose).observe(time.perf_counter() - began)
        if writes:
            self._note_room()
        return answer

    # --- the circuits ---------------------------------------------------------------------------

    def _note_failure(self, cause: str, error: Exception) -> None:
        FAILED.labels(cause).inc()
        with self._turn:
            circuit = self._room if cause == "full" else self._reach
            opened = circuit.failed(cause, monotonic_ms())
        if opened:
            UP.labels("room" if cause == "full" else "reach").set(0)
            _log.warning(
                "Redis is not used: everything goes on without it", cause=cause, error=str(error)[:200]
            )

    def _note_room(self) -> None:
        with self._turn:
            closed = self._room.succeeded()
        if closed:
            UP.labels("room").set(1)
            _log.info("Redis has room again")

    def _keep_looking(self) -> None:
        while not self._ended.wait(_LOOK_S):
            if self._reach.is_due(monotonic_ms()):
                self._look()

    def _look(self) -> None:
        """A read, and a write that costs nothing: a read-only replica or wrong rights are found here."""
        try:
            self._client.ping()
            self._client.delete("portico:nothing")
        except Exception as error:
            cause = cause_of(error)
            if cause is None:
                raise
            self._note_failure(cause, error)
            return
        with self._turn:
            closed = self._reach.succeeded()
        UP.labels("reach").set(1)
        UP.labels("room").set(float(self._room.is_closed))
        if closed:
            _log.info("Redis answers", url=str(self.url))


def _client(url: RedisUrl, budget_ms: int) -> "Redis":
    # Imported by those who have a Redis: it takes 27 MB and a third of a second.
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(
        url.text,
        socket_timeout=budget_ms / 1000,
        socket_connect_timeout=budget_ms / 1000,
        retry=Retry(NoBackoff(), 0),
    )


def cause_of(error: Exception) -> str | None:
    """What is the matter with the server, as a metric label; None: the error is not the server's."""
    from redis import exceptions

    if isinstance(error, exceptions.OutOfMemoryError):
        return "full"
    if isinstance(error, exceptions.ReadOnlyError):
        return "read_only"
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return "refused"
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return "timeout"
    if isinstance(error, exceptions.ConnectionError | OSError):
        return "connection"
    if isinstance(error, exceptions.RedisError):
        return "full" if "OOM" in str(error) else "error"
    return None
