"""What a tenant does to topics and groups through the console, by the rules of Kafka access."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from weakref import WeakValueDictionary

from kio.schema.errors import ErrorCode

from contracts import topic_policy
from contracts.names import SYSTEM_INSTANCE_ID, topic_name_fault
from contracts.specs import Limits
from contracts.units import counted
from runtime.clock import epoch_ms
from tenants.backend import groups, offset_resets, topics
from tenants.backend.cluster import Cluster
from tenants.rules.errors import Conflict, Exists, Invalid, Stale
from tenants.rules.lifecycle import Fault
from tenants.rules.model import Caller, Instance
from tenants.rules.moves import cluster_to_write
from tenants.rules.offset_reset import Planned, Wish, plan
from tenants.store import audit
from tenants.store.audit import Entry
from tenants.store.engine import Store
from tenants.usecases.mutation_rates import MutationRates

Value = TypeVar("Value", str, str | None)


class Topics:
    """Writes to topics and groups of an instance the caller may write to."""

    def __init__(self, store: Store, cluster_of: Callable[[str], Awaitable[Cluster]]) -> None:
        self._store = store
        self._cluster_of = cluster_of
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Partitions are counted and added in turns, per instance."""
        self._mutation_rates = MutationRates()

    async def create(
        self, caller: Caller, instance: Instance, name: str, asked: int | None, configs: dict[str, str]
    ) -> None:
        """`asked` partitions; None: the instance's number. Raises: Invalid with every fault, Conflict,
        TooMany, Unavailable.
        """
        partitions = instance.limits.partitions_default if asked is None else asked
        faults = [Fault("name", fault)] if (fault := topic_name_fault(name)) else []
        faults += _config_faults(configs, instance.limits)
        if faults:
            raise Invalid(faults)
        _refuse_system(instance)
        cluster = await self._cluster_of(cluster_to_write(instance))
        async with self._turn(instance.id):
            existing = await cluster.topics(instance.id)
            if name in existing:
                raise Exists(f"topic '{name}' exists already")
            in_use = sum(len(one.partitions) for one in existing.values())
            _check_room(instance.limits, in_use, partitions)
            written = topic_policy.written_limits(instance.limits, cluster.engine)
            defaults = topic_policy.creation_defaults(instance.capacity_bytes, written)
            configured = defaults | _stored(configs, written)
            with self._mutation_rates.charged(instance, partitions):
                await topics.create(cluster, instance.id, name, partitions, configured)
        detail = f"{name}: {counted(partitions, 'partition')} {configs or ''}".rstrip()
        await self._audit(caller, instance, "topic.create", detail)

    async def change(
        self,
        caller: Caller,
        instance: Instance,
        name: str,
        partitions: int | None,
        configs: dict[str, str | None],
        *,
        expected: str | None = None,
    ) -> None:
        """Add partitions and set configs. `expected`: `topics.version_of` what the caller has seen.

        Raises: NotFound, Invalid, Conflict, Stale, TooMany, Unavailable.
        """
        faults = _config_faults(configs, instance.limits)
        if faults:
            raise Invalid(faults)
        _refuse_system(instance)
        cluster = await self._cluster_of(cluster_to_write(instance))
        async with self._turn(instance.id):
            topic = await topics.existing(cluster, instance.id, name)
            if expected is not None:
                _topic, facts, found = await topics.describe(cluster, instance.id, name)
                if topics.version_of(len(facts), found) != expected:
                    raise Stale(f"'{name}' has been changed since you read it: read it again")
            if partitions is not None and partitions != len(topic.partitions):
                await self._grow(cluster, instance, name, len(topic.partitions), partitions)
            written = topic_policy.written_limits(instance.limits, cluster.engine)
            kept = _stored(configs, written)
            if written is not None:  # what is unset there would be the cluster's own, and unlimited
                defaults = topic_policy.creation_defaults(instance.capacity_bytes, written)
                kept = {key: defaults.get(key) if value is None else value for key, value in kept.items()}
            if kept:
                await topics.alter_configs(cluster, instance.id, name, kept)
        more = f"{counted(partitions, 'partition')} " if partitions else ""
        detail = f"{name}: {more}{configs or ''}".rstrip()
        await self._audit(caller, instance, "topic.change", detail)

    async def _grow(self, cluster: Cluster, instance: Instance, name: str, current: int, wanted: int) -> None:
        if wanted < current:
            raise Conflict(
                f"the topic has {counted(current, 'partition')}: Kafka cannot take partitions away"
            )
        existing = await cluster.topics(instance.id)
        in_use = sum(len(one.partitions) for one in existing.values())
        _check_room(instance.limits, in_use, wanted - current)
        with self._mutation_rates.charged(instance, wanted - current):
            await topics.add_partitions(cluster, instance.id, name, wanted)

    async def delete(self, caller: Caller, instance: Instance, name: str) -> None:
        """Raises: NotFound, TooMany, Unavailable."""
        _refuse_system(instance)
        cluster = await self._cluster_of(cluster_to_write(instance))
        if topic_name_fault(name) is not None:
            raise topics.no_topic(name)
        topic = await topics.existing(cluster, instance.id, name)
        with self._mutation_rates.charged(instance, len(topic.partitions)):
            await topics.delete(cluster, instance.id, name)
        await self._audit(caller, instance, "topic.delete", name)

    async def delete_records(
        self, caller: Caller, instance: Instance, name: str, before: dict[int, int | None]
    ) -> dict[int, int | ErrorCode]:
        """Records before an offset per partition (None: all); of every partition when none is named.

        Raises: NotFound, Invalid, Unavailable.
        """
        _refuse_system(instance)
        cluster = await self._cluster_of(cluster_to_write(instance))
        outcome = await topics.delete_records(cluster, instance.id, name, before)
        await self._audit(caller, instance, "topic.delete-records", f"{name} {before or 'all'}")
        return outcome

    async def delete_group(self, caller: Caller, instance: Instance, name: str) -> None:
        """Raises: NotFound, Conflict when it has members, Unavailable."""
        cluster = await self._cluster_of(cluster_to_write(instance))
        await groups.delete(cluster, instance.id, name)
        await self._audit(caller, instance, "group.delete", name)

    async def delete_offsets(self, caller: Caller, instance: Instance, group: str, topic: str) -> None:
        """Forget what a group has committed of a topic, to which no member of it is subscribed.

        Raises: NotFound, Conflict, Unavailable.
        """
        cluster = await self._cluster_of(cluster_to_write(instance))
        await groups.delete_offsets(cluster, instance.id, group, topic)
        await self._audit(caller, instance, "group.delete-offsets", f"{group} of {topic}")

    async def reset_offsets(
        self,
        caller: Caller,
        instance: Instance,
        group: str,
        wish: Wish,
        asked: dict[str, list[int] | None],
        *,
        execute: bool,
    ) -> list[Planned]:
        """Where a group's offsets would be set, and with `execute` set them; the group has no members.

        Raises: NotFound, Conflict, Invalid, Unavailable.
        """
        cluster = await self._cluster_of(cluster_to_write(instance))
        planned = plan(wish, await offset_resets.known(cluster, instance.id, group, wish, asked))
        if execute:
            await offset_resets.commit(cluster, instance.id, group, planned)
            changed = sum(one.new_offset is not None for one in planned)
            detail = f"{group} to {wish.to}: {counted(changed, 'partition')}"
            await self._audit(caller, instance, "group.reset-offsets", detail)
        return planned

    def _turn(self, instance_id: str) -> asyncio.Lock:
        return self._turns.setdefault(instance_id, asyncio.Lock())

    async def _audit(self, caller: Caller, instance: Instance, action: str, detail: str) -> None:
        entry = Entry(caller.actor, instance.tenant, action, instance.id, detail, caller.address)

        def write() -> None:
            with self._store.write() as connection:
                audit.record(connection, entry, epoch_ms())

        await asyncio.to_thread(write)


def _config_faults(configs: dict[str, str] | dict[str, str | None], limits: Limits) -> list[Fault]:
    """Every fault; a value None deletes the config, so only its name is checked."""
    faults = []
    for name, value in configs.items():
        if value is not None:
            fault = topic_policy.check(name, value, limits)
        elif not topic_policy.is_settable(name):
            fault = topic_policy.check(name, "", limits)
        else:
            fault = None
        if fault is not None:
            is_said = not topic_policy.is_shaped(name, value)
            faults.append(Fault(f"configs.{name[:100]}", fault, is_said))
    return faults


def _stored(configs: Mapping[str, Value], written: Limits | None) -> dict[str, Value]:
    """Checked configs as the cluster gets them."""
    return {
        name: value if value is None else topic_policy.stored_value(name, value, written)
        for name, value in configs.items()
        if name not in topic_policy.NOT_KEPT_KEYS
    }


def _check_room(limits: Limits, in_use: int, more: int) -> None:
    if topic_policy.partitions_fault(in_use, more, limits) is not None:
        raise Conflict(
            f"{in_use} of {limits.partitions_max} partitions are in use, {more} more do not fit: "
            "delete topics or raise partitions_max"
        )


def _refuse_system(instance: Instance) -> None:
    if instance.id == SYSTEM_INSTANCE_ID:
        raise Conflict("the system instance is Portico's own and cannot be changed")
