"""The feed of specs: long polls, acknowledgements, and what they make of instances.

Lives on one event loop; every call of the store goes to a thread. What other loops and threads may call says
so. Acknowledgements are judged from memory: after a restart the followers' next polls bring them again. They
are also written to the store, where the purge looks: another control plane on the same store may have heard
what we have not.
"""

import asyncio
from dataclasses import replace
from typing import Final

from contracts.specs import (
    MESSAGE_VERSION,
    ConsumerKind,
    FeedRequest,
    FeedResponse,
)
from runtime.clock import epoch_ms, monotonic_ms
from runtime.logs import get_logger
from tenants.purge_rule import FORGET_AFTER_MS, HEARD_EVERY_MS
from tenants.rules import lifecycle
from tenants.rules.acknowledgement import Consumer, Outcome, judge
from tenants.rules.errors import Refused
from tenants.rules.lifecycle import Event, State
from tenants.rules.model import Instance
from tenants.store import changes, followers, instances, lineages
from tenants.store.engine import Store, StoreFault
from tenants.store.followers import Follower
from tenants.store.lineages import Position, Verdict
from tenants.store.shared_session import Office
from tenants.usecases.placement import Placement
from tenants.waiting import wait_until

_log = get_logger(__name__)
WAIT_MAX_MS: Final = 30_000
_SETTLE_EVERY_S: Final = 0.5
_RELEASE_EVERY_S: Final = 5.0
_EVENTS: Final = {Outcome.SERVED: Event.SERVED, Outcome.REFUSED: Event.REFUSED}


class UnknownVersion(Refused):
    """A follower speaks a version of the messages that we do not."""


class Feed:
    """Serves followers and settles instances that wait for gateways."""

    def __init__(self, store: Store, placement: Placement) -> None:
        self.consumers: dict[str, Consumer] = {}
        self._written: dict[str, Follower] = {}
        """What the store has from us."""
        self._elsewhere: dict[str, Consumer] = {}
        """Who told another control process of this database; replaced as a whole."""
        self.revision = 0
        """The newest known to this process."""
        self.committed = asyncio.Event()
        """Set when this process has committed something, for who tells the others."""
        self._store = store
        self._placement = placement
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._to_settle = asyncio.Event()

    # --- wake-ups -------------------------------------------------------------------------------

    def start(self) -> None:
        """Note the loop that wake-ups go to."""
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Something was committed: wake all polls. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def heard(self) -> None:
        """Another process has committed something, and tells everybody: wake the polls of this one. May be
        called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.awake)

    def _tell(self) -> None:
        self.committed.set()
        self.awake()

    def awake(self) -> None:
        """Somebody has committed something: wake all polls of this process. On the feed's loop."""
        self._to_settle.set()
        self._wake.set()
        self._wake = asyncio.Event()

    # --- followers ------------------------------------------------------------------------------

    async def poll(self, request: FeedRequest) -> FeedResponse:
        """Answer one poll: at once when there is news, else when there is or the wait is over.

        Raises: UnknownVersion.
        """
        if request.version != MESSAGE_VERSION:
            raise UnknownVersion(f"feed messages of version {request.version} are not understood here")
        consumer = self.consumers.setdefault(request.consumer, Consumer(request.kind))
        consumer.polls_open += 1
        try:
            await self._register(request, consumer)
            return await self._answer(request, consumer)
        finally:
            consumer.polls_open -= 1
            consumer.seen_ms = monotonic_ms()

    async def _answer(self, request: FeedRequest, consumer: Consumer) -> FeedResponse:
        deadline_ms = monotonic_ms() + min(max(request.wait_ms, 0), WAIT_MAX_MS)
        first = True
        position = Position(request.feed_id, request.applied_revision, request.mark)
        while True:
            wake = self._wake  # taken before reading: a commit in between wakes us
            response = await asyncio.to_thread(self._changes, position)
            self.revision = response.revision
            if first:
                self._acknowledge(request, consumer, response)
                first = False
            left_ms = deadline_ms - monotonic_ms()
            if response.full or response.instances or response.clusters or left_ms <= 0:
                return response
            await wait_until(wake, left_ms / 1000)

    def _changes(self, position: Position) -> FeedResponse:
        with self._store.read() as connection:
            if lineages.judge(connection, position) is not Verdict.NEVER_WRITTEN:
                return changes.since(connection, position)
        self._begin_lineage(position)
        with self._store.read() as connection:
            return changes.since(connection, position)

    def _begin_lineage(self, position: Position) -> None:
        """A follower has applied what this store never wrote: it is an older copy, and goes on by itself."""
        with self._store.write() as connection:
            if lineages.judge(connection, position) is not Verdict.NEVER_WRITTEN:
                return  # another poll was faster
            feed_id = lineages.begin(connection, epoch_ms())
        _log.error(
            "the database is an older copy: what was deleted before is not purged without an operator",
            applied_revision=position.revision,
            before=position.feed_id,
            now=feed_id,
        )
        self.notify()

    def _acknowledge(self, request: FeedRequest, consumer: Consumer, answer: FeedResponse) -> None:
        """What the follower has applied counts only when it is part of this feed."""
        consumer.kind = request.kind
        consumer.damaged_logs = request.damaged_logs
        consumer.feed_id = answer.feed_id
        consumer.applied_revision = 0 if answer.full else request.applied_revision
        consumer.failures = {failure.instance_id: failure.reason for failure in request.failures}
        consumer.objections = {refusal.instance_id: refusal.reason for refusal in request.purge_refusals}
        self._to_settle.set()

    async def _register(self, request: FeedRequest, consumer: Consumer) -> None:
        broker, cluster_id = request.broker, request.cluster_id
        if broker is None or cluster_id is None or consumer.broker == (cluster_id, broker):
            return

        def register() -> bool:
            with self._store.write() as connection:
                return self._placement.register_broker(connection, cluster_id, broker, epoch_ms())

        if await asyncio.to_thread(register):
            _log.info("broker registered", cluster=cluster_id, node=broker.node_id, host=broker.host)
            self._tell()
        consumer.broker = (cluster_id, broker)

    def live(self, kind: ConsumerKind) -> dict[str, Consumer]:
        """The followers of a kind that are to be waited for. May be called from any thread."""
        now_ms = monotonic_ms()
        known = self.followers().items()
        return {name: one for name, one in known if one.kind is kind and one.is_live(now_ms)}

    def followers(self) -> dict[str, Consumer]:
        """Everybody who follows this feed, here or at another control process: as heard of last. May be
        called from any thread."""
        known = dict(self._elsewhere)
        for name, one in list(self.consumers.items()):
            if one.polls_open or name not in known or known[name].seen_ms <= one.seen_ms:
                known[name] = one
        return known

    def hear(self, elsewhere: dict[str, Consumer]) -> None:
        """What other control processes were told. May be called from any thread."""
        self._elsewhere = elsewhere

    def applied_everywhere(self, revision: int) -> bool:
        """Whether every live gateway, and at least one, has applied a revision. May be called from any
        thread."""
        return judge("", revision, list(self.followers().values()), monotonic_ms())[0] is Outcome.SERVED

    # --- settling -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Settle instances after each acknowledgement, and while some wait; for ever."""
        waiting = True
        while True:
            await wait_until(self._to_settle, _SETTLE_EVERY_S if waiting else None)
            self._to_settle.clear()
            try:
                waiting = await self.settle()
            except StoreFault:  # polls tell of it
                waiting = True
                await asyncio.sleep(_SETTLE_EVERY_S)

    async def run_port_releases(self, office: Office) -> None:
        """Look now and then whether ports that others had are free again; for ever."""

        def release() -> int:
            with self._store.read() as connection:  # writers of all processes take turns: none for nothing
                if not self._placement.has_to_release(connection):
                    return 0
            with self._store.write() as connection:
                return self._placement.release_freed_ports(connection, epoch_ms())

        while True:
            await asyncio.sleep(_RELEASE_EVERY_S)
            if office.since_ms is None:
                continue
            if await asyncio.to_thread(release):
                self._tell()

    async def settle(self) -> bool:
        """Move instances as the live gateways' acknowledgements say; whether some still wait."""
        now_ms = monotonic_ms()
        for name, one in list(self.consumers.items()):
            if now_ms - one.seen_ms > FORGET_AFTER_MS and one.polls_open == 0:
                del self.consumers[name]
                self._written.pop(name, None)
        # The thread works on a copy: polls go on meanwhile.
        consumers = [replace(one, failures=dict(one.failures)) for one in self.followers().values()]
        news = self._unwritten(now_ms)
        waiting = await asyncio.to_thread(self._settle, consumers, now_ms)
        if news:
            await asyncio.to_thread(self._write, news)
        return waiting

    def _unwritten(self, now_ms: int) -> list[Follower]:
        """Acknowledgements that the store lacks, and now and then that a follower still lives."""
        news = []
        offset_ms = epoch_ms() - now_ms
        for name, one in self.consumers.items():
            heard_ms = now_ms if one.polls_open else one.seen_ms
            cluster_id, address = one.broker or (None, None)
            follower = Follower(
                consumer=name,
                kind=one.kind,
                feed_id=one.feed_id,
                applied_revision=one.applied_revision,
                heard_at_ms=heard_ms + offset_ms,
                cluster_id=cluster_id,
                node_id=None if address is None else address.node_id,
                objections=dict(one.objections),
            )
            before = self._written.get(name)
            if (
                before is None
                or follower.heard_at_ms - before.heard_at_ms >= HEARD_EVERY_MS
                or replace(follower, heard_at_ms=before.heard_at_ms) != before
            ):
                news.append(follower)
        return news

    def _write(self, news: list[Follower]) -> None:
        with self._store.write() as connection:
            followers.save(connection, news, epoch_ms() - FORGET_AFTER_MS)
        self._written |= {one.consumer: one for one in news}

    def _settle(self, consumers: list[Consumer], now_ms: int) -> bool:
        failing = {instance_id for one in consumers for instance_id in one.failures}
        with self._store.read() as connection:
            candidates = instances.in_states(connection, [State.CREATING, State.FAILED])
            known = {one.id for one in candidates}
            candidates += instances.by_ids(connection, failing - known)
        moves = []
        for instance in candidates:
            outcome, reason = judge(instance.id, instance.revision, consumers, now_ms)
            if outcome is not Outcome.WAITING and not instance.listeners_withheld:
                moves.append((instance, _EVENTS[outcome], reason))
        self._apply([move for move in moves if _changes_something(*move)])
        return any(one.state is State.CREATING for one in candidates)

    def _apply(self, moves: list[tuple[Instance, Event, str | None]]) -> None:
        if not moves:
            return
        with self._store.write() as connection:
            for instance, event, reason in moves:
                now = instances.by_id(connection, instance.id)
                if now is None or now.revision != instance.revision or now.state is not instance.state:
                    continue  # changed meanwhile: judged again soon
                state = lifecycle.transition(instance.state, event) or instance.state
                instances.set_state(connection, instance.id, state, reason)
                if event is Event.SERVED:
                    instances.mark_served(connection, instance.id, epoch_ms())
                _log.info("instance settled", instance=instance.id, state=state.value, reason=reason)


def _changes_something(instance: Instance, event: Event, reason: str | None) -> bool:
    if instance.state is State.FAILED and event is Event.REFUSED:
        return reason != instance.state_reason
    return lifecycle.transition(instance.state, event) is not None
