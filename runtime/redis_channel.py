"""A channel between processes by way of Redis: who says something wakes the others. What is said may be lost.

One thread listens, on a connection of its own. It calls `heard` for each message of others, and once
each time that it begins or ceases to listen, since something may have been said meanwhile.
"""

import contextlib
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from runtime.clock import monotonic_ms
from runtime.redis_link import RedisAway, RedisLink, cause_of

if TYPE_CHECKING:
    from redis.client import PubSub

_LOOK_S: Final = 0.1
_LISTEN_S: Final = 1.0
_SILENCE_MS: Final = 3_000
"""After so long without a word the server is asked for one; after twice as long it is given up."""


class RedisChannel:
    """One name of one Redis. `start` and `close` once each; any thread may `say`."""

    def __init__(self, link: RedisLink, name: str, heard: Callable[[], None]) -> None:
        self._link = link
        self._name = name
        self._heard = heard
        self._own = secrets.token_hex(8).encode()
        self._end_name = f"{name}:end:{self._own.decode()}"
        """A channel that nobody else listens to: by it `close` wakes the thread."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-channel", daemon=True)
        self.is_listening = False
        """Whether what others say now is heard."""

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; blocks for a second at most, where the server does not answer."""
        self._ended.set()
        self._publish(self._end_name)
        self._thread.join()

    def say(self) -> None:
        """Wake the others, if they can be reached. Blocks for the budget of a call at most."""
        self._publish(self._name)

    def _publish(self, name: str) -> None:
        with contextlib.suppress(RedisAway):  # who would have heard it looks for itself
            self._link.call("wake", lambda redis: redis.publish(name, self._own))

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            if not self._link.answers:
                continue
            try:
                self._listen()
            except Exception as error:
                if cause_of(error) is None:
                    raise
            if self.is_listening:
                self.is_listening = False
                self._heard()

    def _listen(self) -> None:
        client = self._link.client()
        try:
            pubsub: PubSub = client.pubsub()  # type: ignore[no-untyped-call]
            pubsub.subscribe(self._name, self._end_name)
            last_ms = monotonic_ms()
            is_asked = False
            while not self._ended.is_set():
                message = pubsub.get_message(timeout=_LISTEN_S)
                now_ms = monotonic_ms()
                if message is not None:
                    last_ms, is_asked = now_ms, False
                    self._take(message)
                elif now_ms - last_ms > 2 * _SILENCE_MS:
                    return
                elif now_ms - last_ms > _SILENCE_MS and not is_asked:
                    pubsub.ping()
                    is_asked = True
        finally:
            client.close()

    def _take(self, message: dict[str, object]) -> None:
        if message["channel"] != self._name.encode():
            return
        if message["type"] == "subscribe":
            self.is_listening = True
            self._heard()
        elif message["type"] == "message" and message["data"] != self._own:
            self._heard()
