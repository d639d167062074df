"""Follow the control plane's feed of specs: long poll, acknowledge, keep the last state on disk.

A process that starts while the control plane is down serves from the file (issue: Foundations).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from contracts.specs import (
    BrokerAddress,
    ClusterSpec,
    ConsumerKind,
    DamagedLog,
    FeedRequest,
    FeedResponse,
    InstanceSpec,
    ListenerFailure,
    PurgeRefusal,
)
from runtime.clock import epoch_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from runtime.spec_book import Absent, Changed, OutOfStepError, SpecBook
from runtime.spec_file import SpecFile, Taken

_log = get_logger(__name__)
_WAIT_MS: Final = 10_000
_RETRY_S: Final = 0.5

_SLICE_S: Final = 0.01
"""How long a change holds the loop before others are served."""

OnChange = Callable[[Changed], Iterator[None] | None]
"""Called with what changed: an id that is then in neither `instances` nor `purged` is absent. What takes long
with many instances is answered as steps."""


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
        damaged_logs: Callable[[], tuple[DamagedLog, ...]] = tuple,
    ) -> None:
        self.failures: dict[str, str] = {}
        """Instance id -> why this process cannot serve it; told with the next poll."""
        self.connected = False
        self._client = client
        self._consumer = consumer
        self._kind = kind
        self._file = None if cache_path is None else SpecFile(cache_path)
        self._broker = broker
        self._cluster_id = cluster_id
        self._damaged_logs = damaged_logs
        self._book = SpecBook()
        self._listeners: list[OnChange] = []

    @property
    def instances(self) -> dict[str, InstanceSpec]:
        """What the feed tells of, deleted ones that wait for their purge included."""
        return self._book.instances

    @property
    def absent(self) -> dict[str, Absent]:
        """What it told of once and tells of no more: not to be served, to be kept."""
        return self._book.absent

    @property
    def clusters(self) -> dict[str, ClusterSpec]:
        """The backend clusters."""
        return self._book.clusters

    @property
    def position(self) -> tuple[str, int, str]:
        """(feed id, revision, its mark) as applied last."""
        return self._book.feed_id, self._book.revision, self._book.mark

    def on_change(self, callback: OnChange) -> None:
        """Have `callback` called after each change, in the order of registration."""
        self._listeners.append(callback)

    def load_cache(self) -> bool:
        """Take the last state from disk; False when there is none that can be read."""
        book = None if self._file is None else self._file.load()
        if book is None:
            return False
        self._book = book
        self._tell_at_once(book.everything())
        return True

    def apply_static(self, instances: Iterable[InstanceSpec], clusters: Iterable[ClusterSpec]) -> None:
        """Serve given specs without a control plane (benchmarks, tests)."""
        self._tell_at_once(self._book.take_static(instances, clusters, epoch_ms()))

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
            await self._take(response)

    async def _poll(self, client: InternalClient) -> FeedResponse:
        feed_id, revision, mark = self.position
        request = FeedRequest(
            consumer=self._consumer,
            kind=self._kind,
            feed_id=feed_id,
            applied_revision=revision,
            mark=mark,
            wait_ms=_WAIT_MS if self.connected else 0,
            broker=self._broker,
            cluster_id=self._cluster_id,
            damaged_logs=self._damaged_logs(),
            failures=tuple(
                ListenerFailure(instance_id=i, reason=r) for i, r in sorted(self.failures.items())
            ),
            purge_refusals=tuple(
                PurgeRefusal(instance_id=i, reason=r) for i, r in sorted(self._book.refusals.items())
            ),
        )
        return await client.post("/internal/v1/feed", request, FeedResponse, timeout_s=_WAIT_MS / 1000 + 5)

    async def _take(self, response: FeedResponse) -> None:
        await asyncio.sleep(0)  # thousands of specs have just been decoded
        moved = (response.feed_id, response.revision, response.mark) != self.position
        if self._book.feed_id not in ("", response.feed_id):
            _log.warning("another feed is followed", before=self._book.feed_id, now=response.feed_id)
        try:
            now_ms = epoch_ms()
            changed = self._book.take(response, now_ms)
        except OutOfStepError as error:
            _log.warning("an answer of the feed was not taken: everything is asked for", error=str(error))
            self._book.revision = 0
            return
        await asyncio.sleep(0)
        await self._tell_in_slices(changed)
        if moved or changed.instance_ids or changed.clusters:
            await self._keep(Taken("", now_ms, response))

    def _tell_at_once(self, changed: Changed) -> None:
        for _ in self._tell(changed):
            pass

    async def _tell_in_slices(self, changed: Changed) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for _ in self._tell(changed):
            if loop.time() - began_s >= _SLICE_S:
                await asyncio.sleep(0)
                began_s = loop.time()

    def _tell(self, changed: Changed) -> Iterator[None]:
        absent = sorted(changed.instance_ids & self._book.absent.keys())
        if absent:
            _log.error("the feed tells no more of instances: not served, kept", instances=absent)
        for callback in self._listeners:
            yield from callback(changed) or ()
        for instance_id in changed.instance_ids - self._book.instances.keys():
            self.failures.pop(instance_id, None)

    async def _keep(self, taken: Taken) -> None:
        """On the disk before it is acknowledged, and on a thread: others are served meanwhile."""
        if self._file is None:
            return
        try:
            if not await asyncio.to_thread(self._file.add, taken):
                await asyncio.to_thread(self._file.write, self._book.save())
        except OSError as error:
            _log.warning("the specs cannot be kept on disk", path=str(self._file.path), error=str(error))
