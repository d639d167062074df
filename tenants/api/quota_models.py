"""What is shown of quotas: the master's views, with the names of instances."""

import msgspec

from contracts.quota_view import MESSAGE_VERSION, QuotaView


class InstanceQuota(QuotaView, frozen=True, kw_only=True):
    """GET /v1/instances/{id}/quota: what the master decided and why."""

    tenant: str
    name: str


class InstanceQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/quota: every instance, without history."""

    at_ms: int
    policy: str
    instances: tuple[InstanceQuota, ...] = ()
    version: int = MESSAGE_VERSION
