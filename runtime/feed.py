"""Follow the control plane's feed of specs: long poll, acknowledge, keep the last state on disk.

A process that starts while the control plane is down serves from the file (issue: Foundations).
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from contracts.specs import (
    MESSAGE_VERSION,
    BrokerAddress,
    ClusterSpec,
    ConsumerKind,
    FeedRequest,
    FeedResponse,
    InstanceSpec,
    InstanceState,
    ListenerFailure,
)
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from runtime.process import write_json

_log = get_logger(__name__)
_WAIT_MS: Final = 10_000
_RETRY_S: Final = 0.5

OnChange = Callable[[set[str], bool], None]
"""Called with the ids of changed instances and whether any cluster changed."""


class _Cache(msgspec.Struct, frozen=True):
    feed_id: str
    revision: int
    instances: tuple[InstanceSpec, ...]
    clusters: tuple[ClusterSpec, ...]
    version: int = MESSAGE_VERSION


class FeedFollower:
    """The current specs, kept up to date by `run`. A change is acknowledged by the poll after it."""

    def __init__(
        self,
        client: InternalClient | None,
        consumer: str,
        kind: ConsumerKind,
        cache_path: Path | None,
        *,
        broker: BrokerAddress | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.instances: dict[str, InstanceSpec] = {}
        self.clusters: dict[str, ClusterSpec] = {}
        self.failures: dict[str, str] = {}
        """Instance id -> why this process cannot serve it; told with the next poll."""
        self.connected = False
        self._client = client
        self._consumer = consumer
        self._kind = kind
        self._cache_path = cache_path
        self._broker = broker
        self._cluster_id = cluster_id
        self._feed_id = ""
        self._revision = 0
        self._listeners: list[OnChange] = []

    def on_change(self, callback: OnChange) -> None:
        """Have `callback` called after each change, in the order of registration."""
        self._listeners.append(callback)

    def load_cache(self) -> bool:
        """Take the last state from disk; False when there is none that can be read."""
        if self._cache_path is None or not self._cache_path.exists():
            return False
        try:
            cache = msgspec.json.decode(self._cache_path.read_bytes(), type=_Cache)
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the cached specs cannot be read, waiting for the control plane", error=str(error))
            return False
        if cache.version != MESSAGE_VERSION:
            return False
        self._feed_id, self._revision = cache.feed_id, cache.revision
        self._apply(cache.instances, cache.clusters, full=True)
        return True

    def apply_static(self, instances: Iterable[InstanceSpec], clusters: Iterable[ClusterSpec]) -> None:
        """Serve given specs without a control plane (benchmarks, tests)."""
        self._apply(instances, clusters, full=True)

    async def run(self) -> None:
        """Follow the feed for ever; without a client there is nothing to follow."""
        if self._client is None:
            return
        while True:
            try:
                response = await self._poll(self._client)
            except InternalError as error:
                if self.connected:
                    _log.warning(
                        "the control plane does not answer, serving on from the last specs", error=str(error)
                    )
                self.connected = False
                await asyncio.sleep(_RETRY_S)
                continue
            if not self.connected:
                _log.info("following the control plane", revision=response.revision)
            self.connected = True
            self._take(response)

    async def _poll(self, client: InternalClient) -> FeedResponse:
        request = FeedRequest(
            consumer=self._consumer,
            kind=self._kind,
            applied_revision=self._revision,
            feed_id=self._feed_id,
            wait_ms=_WAIT_MS if self.connected else 0,
            broker=self._broker,
            cluster_id=self._cluster_id,
            failures=tuple(
                ListenerFailure(instance_id=i, reason=r) for i, r in sorted(self.failures.items())
            ),
        )
        return await client.post("/internal/v1/feed", request, FeedResponse, timeout_s=_WAIT_MS / 1000 + 5)

    def _take(self, response: FeedResponse) -> None:
        changed = response.full or response.instances or response.clusters
        self._feed_id, self._revision = response.feed_id, response.revision
        if changed:
            self._apply(response.instances, response.clusters, full=response.full)
            self._save()

    def _apply(
        self, instances: Iterable[InstanceSpec], clusters: Iterable[ClusterSpec], *, full: bool
    ) -> None:
        changed_ids: set[str] = set()
        new_instances = {spec.instance_id: spec for spec in instances}
        new_clusters = {spec.cluster_id: spec for spec in clusters}
        if full:
            for gone in self.instances.keys() - new_instances.keys():
                new_instances[gone] = msgspec.structs.replace(
                    self.instances[gone], state=InstanceState.DELETED
                )
            self.clusters.clear()
        for instance_id, spec in new_instances.items():
            if self.instances.get(instance_id) != spec:
                changed_ids.add(instance_id)
                self.instances[instance_id] = spec
        self.clusters.update(new_clusters)
        for callback in self._listeners:
            callback(changed_ids, bool(new_clusters))
        for instance_id in changed_ids:
            if self.instances[instance_id].state is InstanceState.DELETED:
                self.instances.pop(instance_id)
                self.failures.pop(instance_id, None)

    def _save(self) -> None:
        if self._cache_path is None:
            return
        cache = _Cache(
            self._feed_id, self._revision, tuple(self.instances.values()), tuple(self.clusters.values())
        )
        try:
            write_json(self._cache_path, cache, mode=0o600)
        except OSError as error:
            _log.warning("the specs cannot be kept on disk", path=str(self._cache_path), error=str(error))
