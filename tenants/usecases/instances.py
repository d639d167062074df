"""The life of an instance: create, change, suspend, resume, delete, and who may connect to it."""

import copy
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from contracts.access_orders import AccessOrder
from contracts.acls import Acl, AclFilter
from contracts.client_metrics import MetricsSubscription
from contracts.names import SYSTEM_INSTANCE_ID, is_instance_id, topic_name_fault
from contracts.oauth import OauthSpec
from contracts.request_time import default_request_percent
from contracts.specs import Deletion, FullBehaviour, Limits
from contracts.users import KafkaUser, SecurityProtocol
from runtime.clock import epoch_ms
from tenants import credentials
from tenants.credentials import new_id
from tenants.rules import cidrs, kafka_acls, kafka_users, lifecycle, metric_subscriptions
from tenants.rules.errors import Conflict, Exists, Invalid, Stale, no_instance
from tenants.rules.lifecycle import Event, Fault, State, unfit
from tenants.rules.model import DEFAULT_TENANT, SYSTEM_TENANT, Caller, Instance
from tenants.rules.oauth import described, faults_of
from tenants.store import audit, instances, operations, registry
from tenants.store.engine import Store, feed_position
from tenants.store.instances import Named
from tenants.usecases.ceilings import Ceilings
from tenants.usecases.placement import Placement

_RECORDED: Final = 10
"""The audit log names so many of one request."""
NEITHER: Final = (
    "say who may connect: give whitelist (CIDRs) or set allow_all to true (--whitelist CIDR, --allow-all)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstance:
    """What a tenant orders."""

    name: str
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int
    request_percent: int = lifecycle.DERIVED_PERCENT
    whitelist: list[str] | None = None
    allow_all: bool | None = None
    limits: dict[str, int] = field(default_factory=dict)
    full_behaviour: FullBehaviour = FullBehaviour.REJECT
    auto_create_topics: bool = False
    legacy_clients: bool = False
    client_metrics: bool = True
    security_protocols: list[SecurityProtocol] = field(default_factory=lambda: [SecurityProtocol.PLAIN])
    cluster: str | None = None
    """Where an operator wants it; None: where there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Fields to change; None: as it is."""

    name: str | None = None
    produce_rate_bytes_per_s: int | None = None
    consume_rate_bytes_per_s: int | None = None
    capacity_bytes: int | None = None
    request_percent: int | None = None
    """DERIVED_PERCENT: what goes with the byte rates again."""
    limits: dict[str, int] = field(default_factory=dict)
    full_behaviour: FullBehaviour | None = None
    auto_create_topics: bool | None = None
    legacy_clients: bool | None = None
    client_metrics: bool | None = None
    security_protocols: list[SecurityProtocol] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the quota master knows of an instance; None: not known now."""

    stored_bytes: int | None = None
    partitions: int | None = None


class Instances:
    """The use cases. Each returns the instance as stored; `changed` is called after each commit."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        ceilings: Ceilings,
        changed: Callable[[], None],
        *,
        deletion_grace_ms: int,
        serves_tls: bool,
    ) -> None:
        self._store = store
        self._placement = placement
        self._ceilings = ceilings
        self._changed = changed
        self._deletion_grace_ms = deletion_grace_ms
        self._serves_tls = serves_tls
        self._expected: int | None = None

    def expecting(self, revision: int | None) -> "Instances":
        """These use cases, whose changes raise Stale unless the instance has this revision. None: any."""
        made = copy.copy(self)
        made._expected = revision
        return made

    # --- reading --------------------------------------------------------------------------------

    def get(self, caller: Caller, reference: str, tenant: str | None = None) -> Instance:
        """An instance by id or name; names are the tenant's (operators: of `tenant`). Raises: NotFound."""
        with self._store.read() as connection:
            return _find(connection, caller, reference, tenant)

    def get_billed(self, caller: Caller, reference: str, tenant: str | None = None) -> Instance:
        """An instance by id or name, a deleted one by its id: what it used is billed. Raises: NotFound."""
        with self._store.read() as connection:
            return _find(connection, caller, reference, tenant, also_gone=True)

    def page(
        self, tenant: str | None, after: tuple[str, str] | None, limit: int, search: str = ""
    ) -> list[Instance]:
        """Visible instances by tenant and name: those whose name, id or tenant has the text `search`."""
        with self._store.read() as connection:
            found = instances.page(connection, tenant, after, limit, search)
        # The system instance is part of the machinery: shown to those who ask for its tenant.
        return [one for one in found if tenant == SYSTEM_TENANT or one.tenant != SYSTEM_TENANT]

    def names(self) -> dict[str, tuple[str, str]]:
        """Instance id -> (tenant, name), of visible ones."""
        with self._store.read() as connection:
            return instances.names(connection)

    def billed(self, tenant: str | None) -> dict[str, Named]:
        """All instances that ever were, but the system's; `tenant` None: everybody's."""
        with self._store.read() as connection:
            return instances.all_names(connection, tenant)

    # --- writing --------------------------------------------------------------------------------

    def create(self, caller: Caller, tenant: str, order: NewInstance) -> Instance:
        """Raises: Invalid with every fault, Conflict when the name is taken or without ports, LimitReached
        when it is more than the tenant may have or the cluster may sell."""
        limits, faults = _limits(caller, Limits(), order.limits)
        whitelist, cidr_faults = cidrs.normalise_all(order.whitelist or [], "whitelist")
        faults += _order_faults(caller, order) + cidr_faults
        faults += kafka_users.protocol_faults(order.security_protocols, serves_tls=self._serves_tls)
        if tenant == SYSTEM_TENANT:
            faults.append(unfit("tenant", "the system tenant has its one instance"))
        if faults:
            raise Invalid(faults)
        with self._store.write() as connection:
            if instances.by_name(connection, tenant, order.name) is not None:
                raise _name_taken(order.name)
            now_ms = epoch_ms()
            instance = Instance(
                id=_unused_id(connection),
                tenant=tenant,
                name=order.name,
                state=State.CREATING,
                cluster_id="",
                produce_rate_bytes_per_s=order.produce_rate_bytes_per_s,
                consume_rate_bytes_per_s=order.consume_rate_bytes_per_s,
                capacity_bytes=order.capacity_bytes,
                request_percent=order.request_percent or None,
                limits=limits,
                full_behaviour=order.full_behaviour,
                auto_create_topics=order.auto_create_topics,
                legacy_clients=order.legacy_clients,
                client_metrics=order.client_metrics,
                security_protocols=kafka_users.ordered(order.security_protocols),
                allow_all=bool(order.allow_all),
                whitelist=whitelist,
                created_at_ms=now_ms,
                updated_at_ms=now_ms,
            )
            instance = self._placed(connection, caller, instance, order.cluster)
            self._ceilings.check(connection, caller, instance)
            saved = instances.save(connection, instance, now_ms, new=True)
            self._placement.give_listeners(connection, saved, now_ms)
            audit.record_of(connection, caller, saved, "instance.create", saved.name, now_ms)
            saved = instances.again(connection, saved.id)
            operations.begin(connection, new_id("op"), saved, "instance.create", now_ms)
        self._changed()
        return saved

    def _placed(
        self, connection: Connection, caller: Caller, instance: Instance, wanted: str | None
    ) -> Instance:
        """Raises: Invalid, Unavailable."""

        def fits(cluster_id: str) -> bool:
            return self._ceilings.fits(connection, instance.with_(cluster_id=cluster_id))

        if wanted is None:
            return instance.with_(cluster_id=self._placement.choose_cluster(connection, fits))
        if not caller.is_operator:
            raise Invalid([unfit("cluster", "operators choose it")])
        if registry.cluster(connection, wanted) is None:
            raise Invalid([unfit("cluster", f"there is no cluster '{wanted[:80]}'")])
        if wanted in registry.drained(connection):
            raise Invalid([unfit("cluster", f"cluster '{wanted}' is drained: it takes no new instances")])
        return instance.with_(cluster_id=wanted)

    def change(self, caller: Caller, reference: str, wanted: Change, usage: Usage) -> Instance:
        """Resize and switches. Raises: NotFound, Invalid, Conflict, LimitReached."""

        def edit(connection: Connection, instance: Instance) -> Instance:
            limits, faults = _limits(caller, instance.limits, wanted.limits)
            changed = instance.with_(limits=limits, **_scalars(wanted))
            faults += _change_faults(caller, changed, wanted)
            if wanted.security_protocols is not None:
                new = set(wanted.security_protocols) - set(instance.security_protocols)
                faults += kafka_users.protocol_faults(new, serves_tls=self._serves_tls)
            if faults:
                raise Invalid(faults)
            too_small = lifecycle.shrink_fault(
                wanted.capacity_bytes,
                wanted.limits.get("partitions_max"),
                usage.stored_bytes,
                usage.partitions,
            )
            if too_small is not None:
                raise Conflict(too_small)
            if changed.name != instance.name and instances.by_name(connection, instance.tenant, changed.name):
                raise _name_taken(changed.name)
            self._ceilings.check(connection, caller, changed, before=instance)
            if changed.security_protocols != instance.security_protocols:
                now_ms = epoch_ms()
                registry.free_endpoints(connection, changed.id, now_ms, keep=changed.security_protocols)
                self._placement.give_listeners(connection, changed, now_ms)
            return changed

        return self._edit(caller, reference, "instance.change", edit)

    def suspend(self, caller: Caller, reference: str) -> Instance:
        """Cut its clients; data and retention go on. Raises: NotFound, Conflict."""
        return self._move(caller, reference, Event.SUSPEND)

    def resume(self, caller: Caller, reference: str) -> Instance:
        """Serve again. Raises: NotFound, Conflict."""
        return self._move(caller, reference, Event.RESUME)

    def delete(self, caller: Caller, reference: str) -> Instance:
        """At once invisible and its name free; it is kept for its grace, then purged. Raises: NotFound."""
        return self._move(caller, reference, Event.DELETE)

    def _move(self, caller: Caller, reference: str, event: Event) -> Instance:
        def edit(connection: Connection, instance: Instance) -> Instance:
            after = lifecycle.transition(instance.state, event)
            if after is None:
                raise Conflict(
                    f"instance '{instance.name}' is {instance.state.value}: cannot {event.value} it"
                )
            if event is Event.DELETE:
                instance = self._deleted(connection, instance)
            return instance.with_(state=after, state_reason=None)

        return self._edit(caller, reference, f"instance.{event.value}", edit)

    def _deleted(self, connection: Connection, instance: Instance) -> Instance:
        """Its vports stay its own until it is purged, unless its tenant has too many such. Those of one that
        was never served mean nothing to anybody."""
        now_ms = epoch_ms()
        if instance.served_at_ms is None:
            registry.free_endpoints(connection, instance.id, now_ms)
        deletion = Deletion(
            deleted_at_ms=now_ms,
            purge_after_ms=now_ms + self._deletion_grace_ms,
            lineage=feed_position(connection)[0],
        )
        return instance.with_(deletion=deletion, was_suspended=instance.state is State.SUSPENDED)

    # --- users ----------------------------------------------------------------------------------

    def add_user(
        self, caller: Caller, reference: str, name: str, password: str, superuser: bool = False
    ) -> Instance:
        """Raises: NotFound, Invalid, Conflict."""
        _check(kafka_users.user_faults(name, password))
        user = credentials.new_user(name, password, superuser=superuser)

        def edit(users: tuple[KafkaUser, ...]) -> tuple[KafkaUser, ...]:
            return kafka_users.with_new(users, user)

        return self._edit_users(caller, reference, "user.create", name, edit)

    def set_user_password(self, caller: Caller, reference: str, name: str, password: str) -> Instance:
        """Raises: NotFound, Invalid."""
        _check(kafka_users.password_faults(password))
        user = credentials.new_user(name, password)

        def edit(users: tuple[KafkaUser, ...]) -> tuple[KafkaUser, ...]:
            return kafka_users.with_changed(users, user)

        return self._edit_users(caller, reference, "user.password", name, edit)

    def delete_user(self, caller: Caller, reference: str, name: str) -> Instance:
        """Raises: NotFound."""

        def edit(users: tuple[KafkaUser, ...]) -> tuple[KafkaUser, ...]:
            return kafka_users.without(users, name)

        return self._edit_users(caller, reference, "user.delete", name, edit)

    def set_superuser(self, caller: Caller, reference: str, name: str, superuser: bool) -> Instance:
        """Raises: NotFound."""

        def edit(users: tuple[KafkaUser, ...]) -> tuple[KafkaUser, ...]:
            return kafka_users.with_superuser(users, name, superuser)

        detail = f"{name}: {superuser}"
        return self._edit_users(caller, reference, "user.superuser", detail, edit)

    def set_credentials(self, caller: Caller, order: AccessOrder) -> Instance:
        """Passwords as Kafka's own tools tell them, salted. Raises: NotFound, Conflict, Invalid."""

        def edit(users: tuple[KafkaUser, ...]) -> tuple[KafkaUser, ...]:
            return kafka_users.with_credentials(users, order.credentials, order.forgotten)

        set_ = [f"{one.name} {one.credential.mechanism}" for one in order.credentials]
        gone = [f"without {one.name} {one.mechanism}" for one in order.forgotten]
        detail = "; ".join((*set_, *gone)[:_RECORDED])
        return self._edit_users(caller, order.instance_id, "user.credentials", detail, edit)

    def _edit_users(
        self,
        caller: Caller,
        reference: str,
        action: str,
        name: str,
        edit: Callable[[tuple[KafkaUser, ...]], tuple[KafkaUser, ...]],
    ) -> Instance:
        return self._edit(
            caller,
            reference,
            action,
            lambda _connection, instance: instance.with_(users=edit(instance.users)),
            detail=name,
        )

    def set_oauth(self, caller: Caller, reference: str, oauth: OauthSpec | None) -> Instance:
        """By whose tokens clients log in; None: by nobody's. Raises: NotFound, Invalid."""
        _check([] if oauth is None else faults_of(oauth))

        def edit(_connection: object, instance: Instance) -> Instance:
            return instance.with_(oauth=oauth)

        if oauth is None:
            return self._edit(caller, reference, "oauth.delete", edit)
        return self._edit(caller, reference, "oauth.set", edit, detail=described(oauth))

    # --- ACLs -----------------------------------------------------------------------------------

    def add_acls(self, caller: Caller, reference: str, acls: Sequence[Acl]) -> Instance:
        """Those that are there already change nothing. Raises: NotFound, Invalid, Conflict."""
        kept, faults = kafka_acls.all_checked(acls, "items")
        _check(faults)

        def edit(_connection: object, instance: Instance) -> Instance:
            return instance.with_(acls=kafka_acls.with_added(instance.acls, kept))

        detail = "; ".join(map(kafka_acls.described, kept[:_RECORDED]))
        return self._edit(caller, reference, "acl.create", edit, detail=f"{len(kept)}: {detail}")

    def delete_acls(
        self, caller: Caller, reference: str, filters: Sequence[AclFilter]
    ) -> tuple[Instance, tuple[tuple[Acl, ...], ...]]:
        """The instance, and what was deleted by each filter. Raises: NotFound."""
        meant: tuple[tuple[Acl, ...], ...] = ()

        def edit(_connection: object, instance: Instance) -> Instance:
            nonlocal meant
            left, meant = kafka_acls.without(instance.acls, filters)
            return instance.with_(acls=left)

        detail = "; ".join(str(msgspec.to_builtins(one)) for one in filters[:_RECORDED])
        changed = self._edit(caller, reference, "acl.delete", edit, detail=detail)
        return changed, meant

    def enforce_acls(self, caller: Caller, reference: str, enforced: bool) -> Instance:
        """Raises: NotFound, Conflict where nobody could undo it by Kafka's own tools."""

        def edit(_connection: object, instance: Instance) -> Instance:
            fault = kafka_acls.enforcement_fault(instance.users) if enforced else None
            if fault is not None and not instance.acls_enforced:
                raise Conflict(fault)
            return instance.with_(acls_enforced=enforced)

        return self._edit(caller, reference, "acl.enforce", edit, detail=str(enforced))

    # --- client metrics -------------------------------------------------------------------------

    def subscribe(self, caller: Caller, reference: str, changed: Sequence[MetricsSubscription]) -> Instance:
        """Change subscriptions to client metrics. Raises: NotFound, Invalid, Conflict."""

        def edit(_connection: object, instance: Instance) -> Instance:
            kept = metric_subscriptions.with_changed(instance.metric_subscriptions, changed)
            return instance.with_(metric_subscriptions=kept)

        detail = metric_subscriptions.described(changed)
        return self._edit(caller, reference, "client_metrics.subscribe", edit, detail=detail)

    # --- whitelists -----------------------------------------------------------------------------

    def set_whitelist(
        self, caller: Caller, reference: str, allow_all: bool, entries: Iterable[str]
    ) -> Instance:
        """Replace the list and the switch. Raises: NotFound, Invalid."""
        kept, faults = cidrs.normalise_all(entries, "cidrs")
        if faults:
            raise Invalid(faults)
        return self._edit(
            caller,
            reference,
            "whitelist.set",
            lambda _connection, instance: instance.with_(allow_all=allow_all, whitelist=kept),
        )

    def change_whitelist(
        self,
        caller: Caller,
        reference: str,
        add: Iterable[str],
        remove: Iterable[str],
        allow_all: bool | None,
    ) -> Instance:
        """Add and remove entries. Raises: NotFound, Invalid."""
        added, faults = cidrs.normalise_all(add, "add")
        removed, remove_faults = cidrs.normalise_all(remove, "remove")

        def edit(_connection: Connection, instance: Instance) -> Instance:
            missing = [
                unfit("remove", f"{entry} is not in the whitelist")
                for entry in removed
                if entry not in instance.whitelist
            ]
            if faults or remove_faults or missing:
                raise Invalid([*faults, *remove_faults, *missing])
            left = [entry for entry in instance.whitelist if entry not in removed]
            kept = cidrs.with_added(left, added)
            switch = instance.allow_all if allow_all is None else allow_all
            return instance.with_(whitelist=kept, allow_all=switch)

        return self._edit(caller, reference, "whitelist.change", edit)

    def set_topic_whitelist(
        self, caller: Caller, reference: str, topic: str, entries: list[str] | None
    ) -> Instance:
        """Give a topic its own list, or None: it inherits. The topic need not exist yet.

        Raises: NotFound, Invalid.
        """
        kept, faults = cidrs.normalise_all(entries or [], "cidrs")
        name_fault = topic_name_fault(topic)
        if name_fault is not None:
            faults.append(Fault("topic", name_fault))
        if faults:
            raise Invalid(faults)

        def edit(_connection: Connection, instance: Instance) -> Instance:
            return cidrs.with_topic_whitelist(instance, topic, None if entries is None else kept)

        return self._edit(caller, reference, "whitelist.topic", edit, detail=topic)

    def change_topic_whitelist(
        self, caller: Caller, reference: str, topic: str, add: Iterable[str], remove: Iterable[str]
    ) -> Instance:
        """Add to and remove from a topic's own list, which is there from then on, be it empty.

        Raises: NotFound, Invalid, Conflict.
        """
        added, faults = cidrs.normalise_all(add, "add")
        removed, remove_faults = cidrs.normalise_all(remove, "remove")
        if faults or remove_faults:
            raise Invalid([*faults, *remove_faults])

        def edit(_connection: Connection, instance: Instance) -> Instance:
            left = [one for one in instance.topic_whitelists.get(topic, ()) if one not in removed]
            kept = cidrs.with_added(left, added)
            return cidrs.with_topic_whitelist(instance, topic, kept)

        return self._edit(caller, reference, "whitelist.topic", edit, detail=topic)

    def _edit(
        self,
        caller: Caller,
        reference: str,
        action: str,
        edit: Callable[[Any, Instance], Instance],
        detail: str = "",
    ) -> Instance:
        with self._store.write() as connection:
            before = _find(connection, caller, reference, None)
            if before.id == SYSTEM_INSTANCE_ID:
                raise Conflict("the system instance is Portico's own and cannot be changed")
            if self._expected not in (None, before.revision):
                raise Stale(f"'{before.name}' has been changed since you read it: read it again")
            wanted = edit(connection, before)
            if wanted == before:
                return before
            now_ms = epoch_ms()
            saved = instances.save(connection, wanted, now_ms)
            audit.record_of(connection, caller, saved, action, detail or _difference(before, saved), now_ms)
            saved = instances.again(connection, saved.id)
            if action.startswith("instance."):
                operations.begin(connection, new_id("op"), saved, action, now_ms)
        self._changed()
        return saved


def _find(
    connection: Connection, caller: Caller, reference: str, tenant: str | None, *, also_gone: bool = False
) -> Instance:
    if is_instance_id(reference):
        found = instances.by_id(connection, reference)
    elif lifecycle.name_fault(reference) is not None:
        found = None
    else:
        home = (tenant or DEFAULT_TENANT) if caller.is_operator else caller.tenant
        found = instances.by_name(connection, home, reference)
    if found is None or not (found.is_visible or also_gone):
        raise no_instance(reference)
    if not (caller.is_operator or found.tenant == caller.tenant):
        raise no_instance(reference)
    return found


def _unused_id(connection: Connection) -> str:
    while True:
        drawn = lifecycle.draw_instance_id(secrets.randbelow)
        if instances.by_id(connection, drawn) is None:
            return drawn


def _limits(caller: Caller, current: Limits, wanted: dict[str, int]) -> tuple[Limits, list[Fault]]:
    limits = msgspec.structs.replace(current, **wanted)
    rates = limits.controller_mutation_rate_max, current.controller_mutation_rate_max
    faults = lifecycle.limit_faults(limits)
    return limits, faults + lifecycle.mutation_rate_faults(*rates, caller.is_operator)


def _order_faults(caller: Caller, order: NewInstance) -> list[Fault]:
    rates = (order.produce_rate_bytes_per_s, order.consume_rate_bytes_per_s)
    faults = lifecycle.sold_faults(order.name, *rates, order.capacity_bytes)
    default = default_request_percent(*rates)
    faults += lifecycle.request_percent_faults(order.request_percent, default, caller.is_operator)
    if order.whitelist is None and not order.allow_all:
        faults.append(Fault("whitelist", NEITHER))
    return faults


def _check(faults: list[Fault]) -> None:
    if faults:
        raise Invalid(faults)


def _change_faults(caller: Caller, changed: Instance, wanted: Change) -> list[Fault]:
    rates = (changed.produce_rate_bytes_per_s, changed.consume_rate_bytes_per_s)
    faults = lifecycle.sold_faults(wanted.name, *rates, changed.capacity_bytes)
    if wanted.request_percent is not None:
        default = default_request_percent(*rates)
        faults += lifecycle.request_percent_faults(wanted.request_percent, default, caller.is_operator)
    return faults


def _scalars(wanted: Change) -> dict[str, Any]:
    values = {name: getattr(wanted, name) for name in Change.__dataclass_fields__ if name != "limits"}
    scalars = {name: value for name, value in values.items() if value is not None}
    if wanted.security_protocols is not None:
        scalars["security_protocols"] = kafka_users.ordered(wanted.security_protocols)
    if wanted.request_percent == lifecycle.DERIVED_PERCENT:
        scalars["request_percent"] = None
    return scalars


def _name_taken(name: str) -> Exists:
    return Exists(f"an instance named '{name}' exists already: names are unique within a tenant")


def _difference(before: Instance, after: Instance) -> str:
    ignored = ("revision", "updated_at_ms", "listeners")
    names = (name for name in Instance.__dataclass_fields__ if name not in ignored)
    return "; ".join(
        f"{name}: {getattr(before, name)} -> {getattr(after, name)}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    )
