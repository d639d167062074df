"""The copy of one instance at another cluster: made, kept up with the source, and finished.

Lives in memory while a process works on the move. Where the copy is, is asked of the target whenever work
begins anew, so that nothing is repeated and nothing left out whoever died.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from contracts import topic_policy
from contracts.specs import Engine
from runtime.clock import monotonic_ms
from tenants.backend import topics
from tenants.backend.copy_groups import (
    GroupCopy,
    Standing,
    adopt_transactions,
    forget_transactions,
    newest_producer_id,
    skip_producer_ids,
    transactions,
)
from tenants.backend.copy_links import Layout, Links, Stored
from tenants.backend.copy_targets import (
    CannotMove,
    Target,
    config_faults,
    is_compacted,
    remove,
    target_of,
)
from tenants.backend.producer_ids import burn_producer_ids
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import Conflict, Unavailable
from tenants.rules.model import Instance
from tenants.rules.moves import PRODUCER_IDS_AHEAD, copy_rate, plan_topics

_ALIGN_EVERY_MS: Final = 5_000
_ROUND_S: Final = 2.0
"""After so long a round reports, and is told whether to go on."""
_FETCHED_AT_ONCE: Final = 8
"""Partitions of one leader."""
_LOOK_AGAIN_S: Final = 0.02
_OPEN_OFFSETS: Final = "a transaction with offsets of a group is open: it is tried again when it has ended"


@dataclass(slots=True)
class Round:
    """What a round of copying did."""

    found_bytes: int = 0
    is_at_end: bool = False
    """Whether every log was copied to where it ended when it was looked at."""


@dataclass(slots=True)
class _Log:
    """One partition."""

    position: int
    start: int
    """Of the source: below it nothing is read."""


@dataclass(slots=True)
class _Sizes:
    copied_bytes: int = 0
    total_bytes: int = 0


async def check(source: Links, target: Links, *, fills_gaps: bool) -> None:
    """Whether what an instance has could be kept at the target, as far as can be seen at once. Raises:
    Conflict, Unavailable."""
    if await target.cluster.left_of(target.instance_id):
        raise Conflict("the target has data of this instance: have its old copy removed first (--purge-old)")
    if target.cluster.engine is Engine.BUILTIN:
        return
    layout = await source.layout()
    told = await topics.configs(source.cluster, source.instance_id, list(layout.topics))
    for name, configs in told.items():
        has = {one.name: one.value or "" for one in configs}
        fault = config_faults(name, has, fills_gaps=fills_gaps)
        if fault is not None:
            raise CannotMove(fault)


class Copy:
    """One instance from one cluster to another. All raise Unavailable, and CannotMove where the target could
    not keep what the instance has."""

    def __init__(
        self,
        source: Links,
        target: Links,
        instance: Instance,
        copies: dict[str, str],
        note: Callable[[dict[str, str]], Awaitable[None]],
        *,
        fills_gaps: bool,
    ) -> None:
        """`note` keeps of which topics the target's are copies, before anything is put there."""
        self.sizes = _Sizes()
        self.doing = ""
        """What `finish` is at, for who gives it up."""
        self._source, self.instance = source, instance
        self._target: Target = target_of(target, fills_gaps=fills_gaps)
        self._copies = dict(copies)
        self._note = note
        self._groups = GroupCopy(source, target)
        self._at: Layout = Layout({}, {})
        self._to: Layout = Layout({}, {})
        self._logs: dict[TopicPartition, _Log] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._aligned_ms: int | None = None
        self._burnt_to = -1
        """Producer ids up to here are nobody's at an Apache Kafka any more."""

    def close(self) -> None:
        """Close connections."""
        self._source.close()
        self._target.links.close()

    # --- topics -----------------------------------------------------------------------------------

    async def align(self) -> None:
        """Make the target's topics those of the source, with their configs, and carry what groups have."""
        if self._aligned_ms is None:
            await forget_transactions(self._target.links)  # what was adopted for a switch that was given up
        await self._align_topics()
        await self._groups.carry()
        await self._make_room_for_producers()
        keys = list(self._at.leaders)
        self.sizes.total_bytes = sum(
            (await topics.log_sizes(self._source.cluster, self.instance.id, keys)).values()
        )
        self.sizes.copied_bytes = sum(
            (await topics.log_sizes(self._target.links.cluster, self.instance.id, keys)).values()
        )
        self._aligned_ms = monotonic_ms()

    @property
    def is_aligned(self) -> bool:
        """Whether that was lately."""
        return self._aligned_ms is not None and monotonic_ms() - self._aligned_ms < _ALIGN_EVERY_MS

    async def _align_topics(self) -> None:
        target = self._target
        self._at = await self._source.layout()
        self._to = await target.links.layout()
        wanted = await self._wanted_configs()
        target.compacted = frozenset(name for name, configs in wanted.items() if is_compacted(configs))
        copied_from = {name: None if one == "None" else uuid.UUID(one) for name, one in self._copies.items()}
        plan = plan_topics(self._at.topics, self._to.topics, copied_from)
        for name in plan.delete:
            await remove(target.links, name)
            self._forget(name)
        for name in plan.create:
            await target.make(name, self._at.topics[name], wanted[name])
            self._configs[name] = wanted[name]
        if not plan.is_empty:
            self._copies = {name: str(one.topic_id) for name, one in self._at.topics.items()}
            await self._note(self._copies)
            self._to = await target.links.layout()
        missing = self._at.leaders.keys() - self._to.leaders.keys()
        if missing:
            raise Unavailable(f"topic '{min(missing)[0]}' is not there yet at the target")
        await self._alter_configs(wanted)
        for key in self._logs.keys() - self._at.leaders.keys():
            del self._logs[key]
        await self._find_positions()

    def _forget(self, name: str) -> None:
        self._copies.pop(name, None)
        self._configs.pop(name, None)
        self._logs = {key: one for key, one in self._logs.items() if key[0] != name}

    async def _wanted_configs(self) -> dict[str, dict[str, str]]:
        told = await topics.configs(self._source.cluster, self.instance.id, list(self._at.topics))
        engine = self._target.links.cluster.engine
        written = topic_policy.written_limits(self.instance.limits, engine)
        found = {}
        for name in self._at.topics:
            own = {
                one.name: one.value
                for one in told.get(name, [])
                if not one.is_default and one.value is not None and one.name in topic_policy.ALLOWED
            }
            if written is not None:
                defaults = topic_policy.creation_defaults(self.instance.capacity_bytes, written)
                kept = {key: topic_policy.stored_value(key, value, written) for key, value in own.items()}
                own = defaults | kept
            found[name] = own
        return found

    async def _alter_configs(self, wanted: dict[str, dict[str, str]]) -> None:
        """What changed since it was written, as far as this process knows."""
        links = self._target.links
        for name, configs in wanted.items():
            before = self._configs.get(name)
            if before is None:
                told = await topics.configs(links.cluster, links.instance_id, [name])
                before = {
                    one.name: one.value
                    for one in told.get(name, [])
                    if not one.is_default and one.value is not None
                }
            changed: dict[str, str | None] = {
                key: value for key, value in configs.items() if before.get(key) != value
            }
            changed |= dict.fromkeys(before.keys() - configs.keys())
            if changed:
                await topics.alter_configs(links.cluster, links.instance_id, name, changed)
            self._configs[name] = configs

    # --- where the copy is -------------------------------------------------------------------------

    async def _find_positions(self) -> None:
        new = [key for key in self._at.leaders if key not in self._logs]
        if not new:
            return
        leaders = {key: self._at.leaders[key] for key in new}
        starts = await topics.offsets(self._source.cluster, self.instance.id, leaders, topics.EARLIEST)
        ends = await topics.offsets(self._source.cluster, self.instance.id, leaders)
        for key in new:
            if key not in starts or key not in ends:
                raise Unavailable(f"'{key[0]}' {key[1]}: its leader does not answer")
            self._logs[key] = await self._log(key, starts[key], ends[key])

    async def _log(self, key: TopicPartition, start: int, end: int) -> _Log:
        position = await self._target.end(self._to, key)
        if position > 0 and not await self._agrees(key, start, position, end):
            await remove(self._target.links, key[0])
            self._forget(key[0])
            raise Unavailable(f"the copy of topic '{key[0]}' had another end: it is made anew")
        if position < start:
            stored = await self._read(key, start)
            first = stored.batches[0][1].base_offset if stored and stored.batches else start
            position = await self._target.begin_at(self._to, key, min(first, start))
        return _Log(position, start)

    async def _agrees(self, key: TopicPartition, start: int, position: int, end: int) -> bool:
        """Whether the target's log ends with a batch that the source has there, too."""
        if position > end:
            return False
        if position <= start:
            return True  # what it ended with is gone
        here = await self._read(key, position - 1)
        there = (await self._target.links.fetch(self._to.leaders[key], {key: position - 1})).get(key)
        if here is None or there is None or not here.batches or not there.batches:
            return True
        return self._target.is_copy(key, here, there)

    async def _read(self, key: TopicPartition, offset: int) -> Stored | None:
        """Of the source's log."""
        answer = await self._source.fetch(
            self._at.leaders[key], {key: offset}, only_decided=not self._target.takes_open
        )
        return answer.get(key)

    # --- records ----------------------------------------------------------------------------------

    async def round(self, *, is_paced: bool = True) -> Round:
        """Copy every log to where it ends when it is read, or for a while."""
        done = Round()
        begun_ms = monotonic_ms()
        rate = copy_rate(self.instance.produce_rate_bytes_per_s)
        pending = dict.fromkeys(self._logs)
        while pending:
            moved = await self._pass(pending)
            done.found_bytes += moved
            elapsed_s = (monotonic_ms() - begun_ms) / 1000
            if not is_paced:
                continue
            if elapsed_s > _ROUND_S:
                return done
            if done.found_bytes / rate > elapsed_s:
                await asyncio.sleep(done.found_bytes / rate - elapsed_s)
        done.is_at_end = True
        return done

    async def _pass(self, pending: dict[TopicPartition, None]) -> int:
        """Fetch from every leader once, and put what comes; those that have come to their end leave
        `pending`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for key in pending:
            asked = by_leader.setdefault(self._at.leaders[key], [])
            if len(asked) < _FETCHED_AT_ONCE:
                asked.append(key)
        moved = await asyncio.gather(*(self._from(node, keys, pending) for node, keys in by_leader.items()))
        return sum(moved)

    async def _from(
        self, node_id: int, keys: list[TopicPartition], pending: dict[TopicPartition, None]
    ) -> int:
        positions = {key: max(self._logs[key].position, self._logs[key].start) for key in keys}
        answer = await self._source.fetch(node_id, positions, only_decided=not self._target.takes_open)
        return sum(await asyncio.gather(*(self._take(key, answer.get(key), pending) for key in keys)))

    async def _take(
        self, key: TopicPartition, stored: Stored | None, pending: dict[TopicPartition, None]
    ) -> int:
        log = self._logs[key]
        pending.pop(key)
        if stored is None:
            raise Unavailable(f"'{key[0]}' {key[1]}: its broker does not tell of it")
        if stored.error_code is ErrorCode.offset_out_of_range:
            del self._logs[key]  # retention has overtaken the copy
            await self._find_positions()
            pending[key] = None
            return 0
        if stored.error_code is not ErrorCode.none:
            raise Unavailable(f"'{key[0]}' {key[1]}: its broker says {stored.error_code.name.upper()}")
        if not stored.batches:
            if log.position < stored.readable_to:
                await self._take_alone(key, pending)
            return 0
        log.position = await self._target.put(self._to, key, log.position, stored)
        if log.position < stored.readable_to:
            pending[key] = None  # at the end: others first
        return len(stored.records)

    async def _take_alone(self, key: TopicPartition, pending: dict[TopicPartition, None]) -> None:
        """An answer had no room for it, or nothing is there."""
        log = self._logs[key]
        position = max(log.position, log.start)
        stored = await self._read(key, position)
        if stored is not None and not stored.batches and stored.error_code is ErrorCode.none:
            await self._over_nothing(key, stored.readable_to)
        else:
            pending[key] = None

    async def _over_nothing(self, key: TopicPartition, end: int) -> None:
        """A log that says to be longer, and has nothing there: it was emptied."""
        leaders = {key: self._at.leaders[key]}
        starts = await topics.offsets(self._source.cluster, self.instance.id, leaders, topics.EARLIEST)
        if starts.get(key) != end:
            raise Unavailable(f"'{key[0]}' {key[1]}: nothing is read at offset {self._logs[key].position}")
        self._logs[key] = _Log(await self._target.begin_at(self._to, key, end), end)

    # --- the end ----------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Everything that is left, while gateways hold all clients. Afterwards the target is what the source
        was."""
        self.doing = "copying the last records"
        await self._align_topics()
        while behind := await self._uncommitted():
            self.doing = f"followers do not have all of '{behind[0]}' {behind[1]} yet"
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.doing = "copying the last records"
        before, standing = None, await transactions(self._source)
        while before != standing:  # one that ended meanwhile has markers that have to be copied
            await self.round(is_paced=False)
            before, standing = standing, await transactions(self._source)
        self.doing = "bringing log starts forward"
        await self._delete_what_is_deleted()
        self.doing = "carrying transactional ids"
        await self._carry_transactions(standing)
        self.doing = "carrying offsets of groups"
        await self._groups.carry()

    async def _uncommitted(self) -> TopicPartition | None:
        """A partition whose leader has records, acknowledged perhaps with acks=1, that are not told to who
        reads, since followers in sync do not have them yet. Raises: Unavailable."""
        cluster, instance_id, leaders = self._source.cluster, self.instance.id, self._at.leaders
        ends = await topics.offsets(cluster, instance_id, leaders, with_uncommitted=True)
        committed = await topics.offsets(cluster, instance_id, leaders)
        for key in leaders:
            if key not in ends or key not in committed:
                raise Unavailable(f"'{key[0]}' {key[1]}: its leader does not answer")
            if committed[key] < ends[key]:
                return key
        return None

    async def _delete_what_is_deleted(self) -> None:
        links, instance_id = self._target.links, self.instance.id
        starts = await topics.offsets(self._source.cluster, instance_id, self._at.leaders, topics.EARLIEST)
        there = await topics.offsets(links.cluster, instance_id, self._to.leaders, topics.EARLIEST)
        behind: dict[str, dict[int, int | None]] = {}
        for (name, index), start in starts.items():
            if there.get((name, index), start) < start:
                behind.setdefault(name, {})[index] = start
        for name, before in behind.items():
            await topics.delete_records(links.cluster, instance_id, name, before)

    async def _carry_transactions(self, standing: list[Standing]) -> None:
        if any(one.has_offsets for one in standing):
            raise Unavailable(_OPEN_OFFSETS)
        opened = [one.name for one in standing if one.is_open]
        if opened and not self._target.takes_open:
            raise Unavailable(
                f"transactional id '{min(opened)[:80]}' has an open transaction: it is tried again when that "
                "has ended. A producer that is never without one has to be stopped"
            )
        newest = await newest_producer_id(self._source)
        if self._target.links.cluster.engine is Engine.BUILTIN:
            await skip_producer_ids(self._target.links, newest)
            await adopt_transactions(self._target.links, standing)
        elif newest + PRODUCER_IDS_AHEAD > self._burnt_to:
            self._aligned_ms = None
            raise Unavailable("many producers came: their ids are set aside at the target first")

    async def _make_room_for_producers(self) -> None:
        links = self._target.links
        if links.cluster.engine is Engine.BUILTIN:
            return
        newest = await newest_producer_id(self._source)
        if newest + PRODUCER_IDS_AHEAD > self._burnt_to:
            self._burnt_to = await burn_producer_ids(links, newest + PRODUCER_IDS_AHEAD + 1_000)
