"""Data of instances that no spec has ever named: kept, limited, and told of (ADR-0015)."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.replication.replicas import Replicas
from runtime.feed import FeedFollower

_LOOKS: Final = 3
"""An instance is created on gateways and brokers at slightly different times: it must be unknown at several
looks in a row, seconds apart, before it is taken for a stray."""


class Holdings:
    """What this broker leads, by instance, and which of it belongs to nobody known."""

    def __init__(
        self,
        replicas: Replicas,
        feed: FeedFollower,
        epoch_ms: Callable[[], int],
        *,
        hold: Callable[[str], None],
        release: Callable[[str], None],
    ) -> None:
        self._replicas = replicas
        self._feed = feed
        self._epoch_ms = epoch_ms
        self._hold = hold
        self._release = release
        self._unknown: dict[str, tuple[int, int]] = {}
        """Instance id -> (since when, looks)."""

    def __call__(self) -> Mapping[str, tuple[int, int]]:
        """Instance id -> (partitions led, their bytes)."""
        return self._replicas.led_by_instance()

    def strays(self) -> Mapping[str, int]:
        """Look again; since when each stray is one. While the feed is not followed, nobody becomes one."""
        if self._feed.connected:
            self._look()
        return {
            instance_id: since_ms
            for instance_id, (since_ms, looks) in self._unknown.items()
            if looks >= _LOOKS
        }

    def _look(self) -> None:
        told = self._feed.instances.keys() | self._feed.absent.keys()
        unknown = self._replicas.led_by_instance().keys() - told
        for instance_id in self._unknown.keys() - unknown:
            del self._unknown[instance_id]
            if instance_id not in told:
                self._release(instance_id)
        for instance_id in unknown:
            since_ms, looks = self._unknown.get(instance_id, (self._epoch_ms(), 0))
            self._unknown[instance_id] = (since_ms, min(looks + 1, _LOOKS))
            if looks + 1 >= _LOOKS:
                self._hold(instance_id)
