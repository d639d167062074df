"""What groups have committed and where transactional ids stand, carried from one cluster to another.

Read and written again with each round, so that little differs when gateways hold the instance: then only what
has changed is written.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import TransactionState
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.types import GroupId, TransactionalId
from kio.static.primitive import i8

from contracts.adoption import AdoptProducerIds, AdoptTransaction
from contracts.names import physical_name, tenant_name
from contracts.specs import Engine
from tenants.backend import groups
from tenants.backend.copy_links import Links
from tenants.backend.groups import Committed
from tenants.backend.topics import TopicPartition
from tenants.rules.errors import NotFound, Unavailable
from tenants.rules.moves import PRODUCER_IDS_AHEAD
from wire.codec import duration, milliseconds
from wire.request_bounds import pieces

_AT_ONCE: Final = 12
_TRIES: Final = 20
_RETRY_S: Final = 0.05
_AGAIN: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.concurrent_transactions,
)
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_ENDING: Final = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_OPEN: Final = "Ongoing"


async def _side_by_side(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(step: Callable[[], Awaitable[None]]) -> None:
        async with turns:
            await step()

    await asyncio.gather(*(one(step) for step in work))


class GroupCopy:
    """What the target has of groups, as far as this process has written it."""

    def __init__(self, source: Links, target: Links) -> None:
        self._source, self._target = source, target
        self._written: dict[str, Committed] = {}
        self._are_strangers_gone = False

    async def carry(self) -> int:
        """Make the target's groups what the source's are; how many were written. Raises: Unavailable."""
        source, instance_id = self._source, self._source.instance_id
        listed = {one.name for one in await groups.listing(source.cluster, instance_id)}
        if not self._are_strangers_gone:
            there = await groups.listing(self._target.cluster, instance_id)
            self._written |= {one.name: {} for one in there if one.name not in self._written}
            self._are_strangers_gone = True
        found: dict[str, Committed] = {}

        async def read(name: str) -> None:
            group_id = GroupId(physical_name(instance_id, name))
            coordinator = await groups.coordinator_of(source.cluster, group_id)
            found[name] = await groups.committed_with_metadata(
                source.cluster, instance_id, group_id, coordinator
            )

        await _side_by_side([lambda name=name: read(name) for name in listed])  # type: ignore[misc]
        changed = {name for name, committed in found.items() if committed != self._written.get(name, {})}
        gone = self._written.keys() - listed
        await _side_by_side(
            [lambda name=name: self._write(name, found[name]) for name in changed]  # type: ignore[misc]
        )
        for name in gone:
            await self._forget(name)
        return len(changed) + len(gone)

    async def _write(self, name: str, committed: Committed) -> None:
        before = self._written.get(name, {})
        if before.keys() - committed.keys():
            await self._forget(name)  # some of it is committed no more: begun anew
            before = {}
        news = [(key, value) for key, value in committed.items() if before.get(key) != value]
        for some in pieces(news, groups.PARTITIONS_PER_COMMIT):
            await self._commit(name, dict(some))
        self._written[name] = committed

    async def _forget(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await groups.delete(self._target.cluster, self._target.instance_id, name)
        self._written.pop(name, None)

    async def _commit(self, name: str, committed: Committed) -> None:
        target, instance_id = self._target, self._target.instance_id
        group_id = GroupId(physical_name(instance_id, name))
        request = groups.commit_of(instance_id, group_id, committed)
        codes: set[ErrorCode] = set()
        for _ in range(_TRIES):
            coordinator = await groups.coordinator_of(target.cluster, group_id)
            answer = await target.call(coordinator, request)
            codes = {one.error_code for topic in answer.topics for one in topic.partitions}
            codes -= {ErrorCode.none}
            if not codes & set(_AGAIN):
                break
            await asyncio.sleep(_RETRY_S)
        # A topic that the source's group remembers may be gone there, too: nobody can go on at its offset.
        codes -= {ErrorCode.unknown_topic_or_partition}
        if codes:
            raise Unavailable(f"group '{name[:80]}': the target says {min(codes).name.upper()}")


class Standing(NamedTuple):
    """Where a transactional id of the tenant's stands."""

    name: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[TopicPartition, ...]
    has_offsets: bool
    """Whether offsets of a group are in the open transaction, which nobody but its coordinator knows."""

    @property
    def is_open(self) -> bool:
        return self.state == _OPEN


async def transactions(links: Links) -> list[Standing]:
    """Those of an instance, in order. Raises: Unavailable, also while one is just ending."""
    found = []
    for node_id in links.cluster.addresses:
        listed = await links.call(node_id, ListTransactionsRequest())
        if listed.error_code is not ErrorCode.none:
            raise Unavailable(f"broker {node_id} says {listed.error_code.name.upper()}")
        names = [
            one.transactional_id
            for one in listed.transaction_states
            if tenant_name(links.instance_id, one.transactional_id) is not None
        ]
        if names:
            found += await _described(links, node_id, names)
    return sorted(found)


async def _described(links: Links, node_id: int, names: list[TransactionalId]) -> list[Standing]:
    for _ in range(_TRIES):
        answer = await links.call(node_id, DescribeTransactionsRequest(transactional_ids=tuple(names)))
        told = [one for one in answer.transaction_states if one.error_code is ErrorCode.none]
        if not any(one.transaction_state in _ENDING for one in told):
            return [_standing(links.instance_id, one) for one in told if one.transaction_state != "Dead"]
        await asyncio.sleep(_RETRY_S)  # its markers are being written
    raise Unavailable("a transaction takes long to end")


def _standing(instance_id: str, one: TransactionState) -> Standing:
    names = sorted((topic.topic, int(index)) for topic in one.topics for index in topic.partitions)
    return Standing(
        tenant_name(instance_id, one.transactional_id) or "",
        int(one.producer_id),
        int(one.producer_epoch),
        milliseconds(one.transaction_timeout),
        one.transaction_state,
        tuple((name, index) for topic, index in names if (name := tenant_name(instance_id, topic))),
        any(topic == _OFFSETS_TOPIC for topic, _ in names),
    )


async def adopt_transactions(target: Links, standing: Iterable[Standing]) -> None:
    """Have coordinators of ours go on where these stand. Raises: Unavailable."""

    async def one(each: Standing) -> None:
        instance_id = target.instance_id
        await _adopt(
            target,
            AdoptTransaction(
                transactional_id=physical_name(instance_id, each.name),
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                timeout_ms=each.timeout_ms,
                state=each.state,
                partitions=tuple(
                    (physical_name(instance_id, topic), index) for topic, index in each.partitions
                )
                if each.is_open
                else (),
            ),
        )

    await _side_by_side([lambda each=each: one(each) for each in standing])  # type: ignore[misc]


async def forget_transactions(links: Links) -> None:
    """Have coordinators of ours forget an instance's transactional ids. Raises: Unavailable."""
    if links.cluster.engine is not Engine.BUILTIN:
        return
    for each in await transactions(links):
        await _adopt(links, AdoptTransaction(transactional_id=physical_name(links.instance_id, each.name)))


async def _adopt(links: Links, message: AdoptTransaction) -> None:
    error_code = ErrorCode.coordinator_not_available
    for _ in range(_TRIES):
        request = FindCoordinatorRequest(key=message.transactional_id, key_type=i8(1))
        found = await links.cluster.ask(request)
        error_code = found.error_code
        if error_code is ErrorCode.none:
            error_code = ErrorCode((await links.adopt(int(found.node_id), message)).error_code)
        if error_code not in _AGAIN:
            break
        await asyncio.sleep(_RETRY_S)
    if error_code is not ErrorCode.none:
        raise Unavailable(f"a transactional id: the target says {error_code.name.upper()}")


async def newest_producer_id(links: Links) -> int:
    """An id that no broker has given out more than `PRODUCER_IDS_AHEAD` beyond. Raises: Unavailable."""
    newest = -1
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout=duration(60_000))
    for node_id in links.cluster.addresses:
        for _ in range(_TRIES):
            answer = await links.call(node_id, request)
            if answer.error_code not in _AGAIN:
                break
            await asyncio.sleep(_RETRY_S)
        if answer.error_code is not ErrorCode.none:
            raise Unavailable(f"broker {node_id} gives no producer id: {answer.error_code.name.upper()}")
        newest = max(newest, int(answer.producer_id))
    return newest


async def skip_producer_ids(target: Links, newest: int) -> None:
    """Have brokers of ours give out none that the source may have given. Raises: Unavailable."""
    message = AdoptProducerIds(up_to=newest + PRODUCER_IDS_AHEAD)
    for node_id in target.cluster.addresses:
        answer = await target.adopt(node_id, message)
        if answer.error_code:
            raise Unavailable(f"broker {node_id} of the target gives no producer ids now")
