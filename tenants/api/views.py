"""What the API shows of our nouns."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.response import MetadataResponseTopic

from contracts import topic_policy
from contracts.quota_view import QuotaView
from contracts.server_names import NamedPort, named_listeners
from contracts.specs import Deletion, Limits, Listener
from runtime.clock import monotonic_ms
from runtime.config import format_host_port
from tenants import credentials
from tenants.api import models, topic_models
from tenants.api.context import at
from tenants.backend.group_lags import GroupFacts
from tenants.backend.groups import ListedGroup, MemberFacts, OffsetFacts
from tenants.backend.topics import ConfigFacts, PartitionFacts
from tenants.console import Console
from tenants.rules.model import OPERATORS, Caller, Instance, spec_of
from tenants.rules.permissions import PERMISSIONS, Permission, Role
from tenants.store.access_keys import AccessKey
from tenants.store.accounts import Key
from tenants.store.audit import Recorded
from tenants.store.members import User


async def instance_view(plane: Console, instance: Instance) -> models.InstanceView:
    """One instance with its live numbers."""
    return (await instance_views(plane, [instance]))[0]


async def instance_views(plane: Console, found: Iterable[Instance]) -> list[models.InstanceView]:
    """Instances with their live numbers."""
    usage = await plane.quota.usage()
    return [_instance_view(plane, one, usage.get(one.id)) for one in found]


def _instance_view(plane: Console, instance: Instance, usage: QuotaView | None) -> models.InstanceView:
    endpoints = [
        models.EndpointView(
            security_protocol=one.security_protocol,
            bootstrap_servers=format_host_port(one.advertised_host, one.port),
            bootstrap_servers_by_name=by_name(plane.config.named_port, instance.id, one),
        )
        for one in instance.bootstraps
    ]
    return models.InstanceView(
        id=instance.id,
        name=instance.name,
        tenant=instance.tenant,
        state=models.ConsoleState(instance.state.value),
        state_reason=instance.state_reason,
        cluster_trouble=None if (ill := plane.illness(instance.cluster_id)) is None else ill.cause.sentence,
        bootstrap_servers=endpoints[0].bootstrap_servers if endpoints else "",
        produce_rate_bytes_per_s=instance.produce_rate_bytes_per_s,
        consume_rate_bytes_per_s=instance.consume_rate_bytes_per_s,
        capacity_bytes=instance.capacity_bytes,
        request_percent=spec_of(instance).request_percent_applied,
        request_percent_derived=instance.request_percent is None,
        stored_bytes=None if usage is None else usage.stored_bytes,
        traffic=None if usage is None else _traffic_view(usage),
        blocked=None if usage is None else usage.blocked,
        limits=models.LimitsView.model_validate(instance.limits, from_attributes=True),
        partitions=None if usage is None else sum(one.partitions_led for one in usage.brokers),
        connections=plane.gateways.connections(instance.id, monotonic_ms()),
        full_behaviour=instance.full_behaviour,
        auto_create_topics=instance.auto_create_topics,
        legacy_clients=instance.legacy_clients,
        client_metrics=instance.client_metrics,
        security_protocols=list(instance.security_protocols),
        endpoints=endpoints,
        allow_all=instance.allow_all,
        whitelist=list(instance.whitelist),
        deletion=_deletion_view(instance.deletion),
        created_at=at(instance.created_at_ms),
        updated_at=at(instance.updated_at_ms),
        revision=instance.revision,
        applied=plane.feed.applied_everywhere(instance.revision),
    )


def _traffic_view(usage: QuotaView) -> models.TrafficView:
    flows = (usage.produce, usage.consume, usage.cpu.total)
    return models.TrafficView(
        produce_bytes_per_s=usage.produce.rate_per_s,
        consume_bytes_per_s=usage.consume.rate_per_s,
        throttled_ms_per_s=max(one.throttled_ms_per_s for one in flows),
        silent_brokers=sum(one.silent for one in usage.brokers),
    )


def by_name(place: NamedPort | None, instance_id: str, bootstrap: Listener) -> str | None:
    """Where clients begin at the port that serves by names, if they may."""
    found = [
        format_host_port(one.advertised_host, one.port)
        for one in named_listeners(instance_id, [bootstrap], place)
    ]
    return found[0] if found else None


def _deletion_view(deletion: Deletion | None) -> models.DeletionView | None:
    if deletion is None:
        return None
    return models.DeletionView(deleted_at=at(deletion.deleted_at_ms), purge_after=at(deletion.purge_after_ms))


def whitelist_view(instance: Instance) -> models.WhitelistView:
    """An instance's own list."""
    return models.WhitelistView(allow_all=instance.allow_all, cidrs=list(instance.whitelist))


def topic_whitelist_view(instance: Instance, topic: str) -> models.TopicWhitelistView:
    """A topic's list."""
    own = instance.topic_whitelists.get(topic)
    return models.TopicWhitelistView(topic=topic, inherits=own is None, cidrs=list(own or ()))


def topic_summary(
    instance: Instance, name: str, topic: MetadataResponseTopic, stored_bytes: int | None
) -> topic_models.TopicSummary:
    """A topic in a listing."""
    return topic_models.TopicSummary(
        name=name,
        partitions=len(topic.partitions),
        replication_factor=max((len(one.replica_nodes) for one in topic.partitions), default=0),
        stored_bytes=stored_bytes,
        has_whitelist=name in instance.topic_whitelists,
    )


def topic_view(
    instance: Instance, name: str, partitions: list[PartitionFacts], configs: list[ConfigFacts]
) -> topic_models.TopicView:
    """A topic in full."""
    sizes = [one.size_bytes for one in partitions if one.size_bytes is not None]
    own = instance.topic_whitelists.get(name)
    return topic_models.TopicView(
        name=name,
        partitions=[_partition_view(one) for one in partitions],
        configs=[_config_view(one, instance.limits) for one in configs],
        stored_bytes=sum(sizes) if len(sizes) == len(partitions) else None,
        whitelist=None if own is None else list(own),
    )


def _partition_view(facts: PartitionFacts) -> topic_models.PartitionView:
    metadata = facts.metadata
    return topic_models.PartitionView(
        partition=metadata.partition_index,
        leader=metadata.leader_id if metadata.leader_id >= 0 else None,
        replicas=list(metadata.replica_nodes),
        isr=list(metadata.isr_nodes),
        log_start_offset=facts.log_start_offset,
        high_watermark=facts.high_watermark,
        size_bytes=facts.size_bytes,
    )


def _config_view(facts: ConfigFacts, limits: Limits) -> topic_models.ConfigView:
    allowed = topic_policy.ALLOWED.get(facts.name)
    return topic_models.ConfigView(
        name=facts.name,
        value=topic_policy.applied(facts.name, facts.value, limits, is_own=not facts.is_default),
        is_default=facts.is_default,
        editable=allowed is not None,
        about=None if allowed is None else allowed.about,
    )


def delete_records_view(outcome: dict[int, int | ErrorCode]) -> topic_models.DeleteRecordsResult:
    """What became of each partition."""
    return topic_models.DeleteRecordsResult(
        partitions=[
            topic_models.PartitionStart(partition=partition, log_start_offset=None, error=result.name.upper())
            if isinstance(result, ErrorCode)
            else topic_models.PartitionStart(partition=partition, log_start_offset=result, error=None)
            for partition, result in outcome.items()
        ]
    )


def member_view(facts: MemberFacts) -> topic_models.MemberView:
    """A member of a group."""
    return topic_models.MemberView(
        member_id=facts.member.member_id,
        group_instance_id=facts.member.group_instance_id,
        client_id=facts.member.client_id,
        client_host=facts.member.client_host,
        assignment=[
            topic_models.AssignedPartitions(topic=topic, partitions=partitions)
            for topic, partitions in sorted(facts.assignment.items())
        ],
    )


def group_summary(listed: ListedGroup, facts: GroupFacts | None) -> topic_models.GroupSummary:
    """A group of a listing, with what is known of it."""
    return topic_models.GroupSummary(
        group=listed.name,
        state=listed.state,
        protocol_type=listed.protocol_type,
        members=None if facts is None else facts.members,
        topics=None if facts is None else facts.topics,
        lag=None if facts is None else facts.lag,
        lag_seconds=None if facts is None else facts.lag_seconds,
    )


def committed_view(facts: OffsetFacts, seconds: float | None) -> topic_models.CommittedOffset:
    """A committed offset with its lag."""
    end = facts.log_end_offset
    return topic_models.CommittedOffset(
        topic=facts.key[0],
        partition=facts.key[1],
        committed_offset=facts.committed_offset,
        log_end_offset=end,
        lag=None if end is None else max(0, end - facts.committed_offset),
        lag_seconds=seconds,
        metadata=facts.metadata,
    )


def session_view(who: User | Caller, token: str) -> models.SessionView:
    """Whoever has the session of a token."""
    role = Role(who.role)
    return models.SessionView(
        user=who.name,
        role=role,
        tenant=who.tenant,
        permissions=permissions_of(role),
        csrf_token=credentials.csrf_token(token),
    )


def permissions_of(role: Role) -> list[Permission]:
    """What a role may do, in the table's order."""
    return [one for one in Permission if one in PERMISSIONS[role]]


def key_view(key: Key) -> models.KeyView:
    """A key without its secret."""
    return models.KeyView(
        id=key.id,
        expires_at=_maybe_at(key.expires_at_ms),
        previous_until=_maybe_at(key.previous_until_ms),
        **_credential(key),
    )


def access_key_view(key: AccessKey) -> models.AccessKeyView:
    """An access-key pair without its secret key."""
    return models.AccessKeyView(secret_id=key.secret_id, **_credential(key))


def _credential(key: Key | AccessKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "role": Role(key.role),
        "tenant": key.tenant,
        "created_at": at(key.created_at_ms),
        "last_used_at": _maybe_at(key.last_used_at_ms),
    }


def _maybe_at(ms: int | None) -> datetime | None:
    return None if ms is None else at(ms)


def actor_for(caller: Caller, actor: str) -> str:
    """How somebody's doing is told to a caller."""
    is_hidden = actor.startswith(OPERATORS) and not caller.is_operator
    return OPERATORS.removesuffix(":") if is_hidden else actor


def audit_view(recorded: Recorded, caller: Caller) -> models.AuditView:
    """An entry of the audit log. Tenants see that an operator did something, not who and from where."""
    entry = recorded.entry
    shown = actor_for(caller, entry.actor)
    if shown != entry.actor:
        entry = replace(entry, actor=shown, address=None)
    return models.AuditView(
        id=recorded.id, at=at(recorded.at_ms), instance_name=recorded.instance_name, **asdict(entry)
    )
