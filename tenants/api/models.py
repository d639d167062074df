"""What the console's REST API takes and answers with. Unknown fields of requests are refused.

Sizes are bytes, rates bytes/s, times RFC 3339 in UTC. A field that a PATCH leaves out stays as it is.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.specs import FullBehaviour
from contracts.users import SecurityProtocol
from tenants.api.shapes import Capacity, Cidrs, Name, Percent, Rate, limit, of, where
from tenants.rules.permissions import Permission, Role

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
_PROTOCOLS = (
    "how clients may come in, each way with vports of its own: `plain`, whom the whitelist admits; "
    "`sasl_plaintext`, users with a password or a token (SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER); "
    "`tls` and `sasl_ssl`, "
    "the same encrypted, at `tls` perhaps with a certificate"
)
_CLIENT_METRICS = "whether clients are asked for metrics of their own (KIP-714): `GET .../clients`"
_REQUEST_PERCENT = (
    "CPU time for requests in percent of one core, over the whole cluster; 0: what goes with the byte rates. "
    "More than that is the operators' to give"
)
Protocols = Annotated[
    list[Annotated[SecurityProtocol, Field(strict=False)]],
    Field(min_length=1, max_length=8, description=_PROTOCOLS, examples=[["plain", "sasl_plaintext"]]),
]


def whole_numbers(given: object) -> object:
    """A body whose whole numbers are integers: to JSON Schema 3.0 is one. No request has a field that is
    another number. Fields, and what is in their lists and objects; those of models look for themselves."""
    return {name: _whole_within(value) for name, value in given.items()} if isinstance(given, dict) else given


def _whole_within(value: object) -> object:
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    return _whole(value)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


class RequestModel(BaseModel):
    """A body: unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _take_whole_numbers(cls, given: object) -> object:
        return whole_numbers(given)


class ViewModel(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True)


class ConsoleState(StrEnum):
    """The life cycle of an instance as tenants see it."""

    CREATING = "creating"
    RUNNING = "running"
    SUSPENDED = "suspended"
    FAILED = "failed"
    DELETED = "deleted"
    PURGING = "purging"
    PURGED = "purged"


class FieldFault(ViewModel):
    """One field of a request that was refused."""

    field: str = Field(examples=["limits.partitions_max"])
    message: str
    ceiling: int | None = Field(default=None, description="where a limit is reached: what may be had in all")
    taken: int | None = Field(default=None, description="what is had already")
    asked: int | None = None


class Problem(ViewModel):
    """RFC 9457 problem details, as `application/problem+json`."""

    type: str = Field(examples=["urn:portico:problem:not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no instance 'shop'"])
    instance: str = Field(description="the path of the request", examples=["/v1/instances/shop"])
    request_id: str | None = Field(
        default=None,
        description="of the answer's X-Request-Id: operators find it in the log",
        examples=["5f0c2a9b41d7e386"],
    )
    errors: list[FieldFault] | None = None


# --- session, accounts -----------------------------------------------------------------------------


class LoginRequest(RequestModel):
    """POST /v1/session."""

    user: str = Field(min_length=1, max_length=128, examples=["admin"])
    password: str = Field(min_length=1, max_length=1024)


class SessionView(ViewModel):
    """Who is logged in. Browsers send `csrf_token` as X-CSRF-Token with every write."""

    user: str
    role: Role
    tenant: str
    permissions: list[Permission]
    csrf_token: str


class Me(ViewModel):
    """GET /v1/me: the caller, by session or key, and the address the request came from."""

    kind: str = Field(examples=["session", "key"])
    name: str
    role: Role
    tenant: str
    permissions: list[Permission]
    address: str | None = Field(description="the caller's address, a start for a whitelist")


class RoleView(ViewModel):
    """A role."""

    role: Role
    permissions: list[Permission]
    grants: list[Role] = Field(description="roles that it may give to others, and take from them")


class PermissionView(ViewModel):
    """A permission."""

    permission: Permission = Field(description="what roles have")
    meaning: str = Field(description="what it allows", examples=["send messages"])


class RoleList(ViewModel):
    """GET /v1/roles: the table of who may do what."""

    items: list[RoleView]
    meanings: list[PermissionView] = Field(description="what the permissions allow")


class TenantCreate(RequestModel):
    """POST /v1/tenants."""

    name: Name = Field(examples=["acme"])


class TenantView(ViewModel):
    """A tenant: owns instances, users and keys."""

    name: str
    instances: int
    created_at: datetime


class TenantList(ViewModel):
    """GET /v1/tenants."""

    items: list[TenantView]
    next_cursor: str | None = None


class KeyCreate(RequestModel):
    """POST /v1/keys."""

    name: Name = Field(examples=["deploy"])
    role: Role = Field(strict=False, default=Role.OWNER)
    valid_hours: int | None = Field(
        default=None, ge=1, le=10 * 366 * 24, description="how long it is good; null: until it is revoked"
    )


class KeyRotate(RequestModel):
    """POST /v1/keys/{key}/rotate."""

    overlap_hours: int = Field(
        default=24, ge=0, le=30 * 24, description="how long the secret that it has now stays good"
    )


class KeyView(ViewModel):
    """An API key, without its secret."""

    id: str
    name: str
    role: Role
    tenant: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    previous_until: datetime | None


class KeyCreated(KeyView):
    """An API key with a new secret: the only time that it is shown."""

    secret: str


class KeyList(ViewModel):
    """GET /v1/keys."""

    items: list[KeyView]
    next_cursor: str | None = None


class AccessKeyCreate(RequestModel):
    """POST /v1/access-keys."""

    name: Name = Field(examples=["terraform"])
    role: Role = Field(strict=False, default=Role.OWNER)


class AccessKeyView(ViewModel):
    """A pair that signs requests of the CKafka-compatible endpoint, without its secret key."""

    secret_id: str = Field(examples=["AKIDz8krbsJ5yKBZQpn74WFkmLPx3gnPhESA"])
    name: str
    role: Role
    tenant: str
    created_at: datetime
    last_used_at: datetime | None


class AccessKeyCreated(AccessKeyView):
    """A new pair: the only time its secret key is shown."""

    secret_key: str


class AccessKeyList(ViewModel):
    """GET /v1/access-keys, one page."""

    items: list[AccessKeyView]
    next_cursor: str | None = None


class PasswordReset(ViewModel):
    """POST /v1/members/{member}/reset-password: the new password, shown once."""

    user: str
    password: str


# --- instances -------------------------------------------------------------------------------------


class LimitsView(ViewModel):
    """Bounds of an instance beside rates and capacity."""

    partitions_max: int
    partitions_default: int
    connections_max: int
    connections_per_ip_max: int
    connection_rate_max: int = Field(description="new connections per second")
    controller_mutation_rate_max: int = Field(
        description="partitions that clients create and delete per second; eleven times as many at once"
    )
    message_bytes_max: int
    request_bytes_max: int
    retention_ms_max: int
    login_ms_max: int


class LimitsChange(RequestModel):
    """The limits to set; those left out keep their value (or the default of a new instance)."""

    partitions_max: Annotated[int, limit("partitions_max")] | None = Field(default=None, examples=[300])
    partitions_default: Annotated[int, limit("partitions_default")] | None = Field(default=None, examples=[3])
    connections_max: Annotated[int, limit("connections_max")] | None = Field(default=None, examples=[5000])
    connections_per_ip_max: Annotated[int, limit("connections_per_ip_max")] | None = Field(
        default=None, examples=[5000]
    )
    connection_rate_max: Annotated[int, limit("connection_rate_max")] | None = Field(
        default=None, examples=[2000]
    )
    controller_mutation_rate_max: Annotated[int, limit("controller_mutation_rate_max")] | None = Field(
        default=None,
        description="partitions that clients create and delete per second; more than 50 is the operators' to "
        "give",
        examples=[50],
    )
    message_bytes_max: Annotated[int, limit("message_bytes_max")] | None = Field(
        default=None, examples=[1048588]
    )
    request_bytes_max: Annotated[int, limit("request_bytes_max")] | None = Field(
        default=None, examples=[104857600]
    )
    retention_ms_max: Annotated[int, limit("retention_ms_max")] | None = Field(
        default=None, examples=[2592000000]
    )
    login_ms_max: Annotated[int, limit("login_ms_max")] | None = Field(default=None, examples=[0])


class InstanceCreate(RequestModel):
    """POST /v1/instances. One of `whitelist` and `allow_all` must be given."""

    model_config = ConfigDict(
        json_schema_extra=where("allow_all", True, {}, of("whitelist", whitelist={"type": "array"}))
    )

    name: Name = Field(examples=["shop"])
    produce_rate_bytes_per_s: Rate = Field(examples=[20_000_000])
    consume_rate_bytes_per_s: Rate = Field(examples=[40_000_000])
    capacity_bytes: Capacity = Field(examples=[10_000_000_000])
    request_percent: Percent = Field(default=0, description=_REQUEST_PERCENT, examples=[100])
    whitelist: Cidrs | None = None
    allow_all: bool | None = None
    limits: LimitsChange = LimitsChange()
    full_behaviour: FullBehaviour = Field(default=FullBehaviour.REJECT, strict=False)
    auto_create_topics: bool = False
    legacy_clients: bool = Field(
        default=False,
        description="Produce 0-2, Fetch 0-3 and ListOffsets 0 are served: clients from before Kafka 0.11",
    )
    client_metrics: bool = Field(default=True, description=_CLIENT_METRICS)
    security_protocols: Protocols = [SecurityProtocol.PLAIN]
    cluster: str | None = Field(
        default=None,
        max_length=64,
        description="where it is to be, which operators alone may say; null: where there is room",
    )


class InstanceChange(RequestModel):
    """PATCH /v1/instances/{id}: resize, limits, switches. The whitelist has its own resource."""

    name: Name | None = Field(default=None, examples=["shop"])
    produce_rate_bytes_per_s: Rate | None = Field(default=None, examples=[30_000_000])
    consume_rate_bytes_per_s: Rate | None = Field(default=None, examples=[60_000_000])
    capacity_bytes: Capacity | None = Field(default=None, examples=[20_000_000_000])
    request_percent: Percent | None = Field(default=None, description=_REQUEST_PERCENT, examples=[150])
    limits: LimitsChange = LimitsChange()
    full_behaviour: FullBehaviour | None = Field(default=None, strict=False)
    auto_create_topics: bool | None = None
    legacy_clients: bool | None = None
    client_metrics: bool | None = Field(default=None, description=_CLIENT_METRICS)
    security_protocols: Protocols | None = Field(default=None, description=_PROTOCOLS, examples=[["plain"]])


class EndpointView(ViewModel):
    """Where clients connect that come in one way."""

    security_protocol: str = Field(description="how they come in", examples=["sasl_plaintext"])
    bootstrap_servers: str
    bootstrap_servers_by_name: str | None = Field(
        description="the same at the port that all instances with TLS share, where there is one: a host "
        "name of the instance, and that port",
        examples=["iabcdefghijk.kafka.example.com:9093"],
    )


class DeletionView(ViewModel):
    """When an instance was deleted, and until when it can be taken back."""

    deleted_at: datetime
    purge_after: datetime


class TrafficView(ViewModel):
    """What flows through an instance now, over all its brokers that report."""

    produce_bytes_per_s: int = Field(description="produced now", examples=[1_048_576])
    consume_bytes_per_s: int = Field(description="consumed now", examples=[2_097_152])
    throttled_ms_per_s: int = Field(
        description="of each second, how long clients are held back, for what they use most", examples=[0]
    )
    silent_brokers: int = Field(
        description="brokers that lead some of it and do not report: what they carry is not in the figures",
        examples=[0],
    )


class InstanceView(ViewModel):
    """An instance: what was bought, where it is reached, how it does."""

    id: str = Field(examples=["iabcdefghijk"])
    name: str
    tenant: str
    state: ConsoleState
    state_reason: str | None = Field(description="why the instance failed, in one sentence")
    cluster_trouble: str | None
    bootstrap_servers: str = Field(examples=["127.0.0.1:20000"])
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    capacity_bytes: int
    request_percent: int = Field(description="CPU time for requests in percent of one core, over the cluster")
    request_percent_derived: bool = Field(description="it goes with the byte rates: no other figure was set")
    stored_bytes: int | None = Field(description="null while the quota master does not answer")
    traffic: TrafficView | None = Field(
        description="what flows now; null while the quota master does not answer"
    )
    blocked: bool | None = Field(description="producers are blocked: the instance is full")
    limits: LimitsView
    partitions: int | None = Field(description="partitions led by brokers, null while unknown")
    connections: int
    full_behaviour: FullBehaviour
    auto_create_topics: bool
    legacy_clients: bool
    client_metrics: bool = Field(description=_CLIENT_METRICS)
    security_protocols: list[str] = Field(description=_PROTOCOLS, examples=[["plain", "sasl_plaintext"]])
    endpoints: list[EndpointView] = Field(description="where clients connect, by how they come in")
    allow_all: bool
    whitelist: list[str]
    deletion: DeletionView | None = Field(default=None, description="of a deleted instance")
    created_at: datetime
    updated_at: datetime
    revision: int
    applied: bool = Field(description="whether every live gateway serves this revision")


class InstanceList(ViewModel):
    """GET /v1/instances, one page."""

    items: list[InstanceView]
    next_cursor: str | None


# --- whitelist -------------------------------------------------------------------------------------


class WhitelistView(ViewModel):
    """Who may connect. An empty list admits nobody, unless `allow_all`."""

    allow_all: bool
    cidrs: list[str]


class WhitelistSet(RequestModel):
    """PUT an instance's whitelist."""

    allow_all: bool = False
    cidrs: Cidrs = []


class WhitelistChange(RequestModel):
    """PATCH an instance's whitelist: entries to add and to remove, and the switch."""

    add: Cidrs = []
    remove: Cidrs = []
    allow_all: bool | None = None


class TopicWhitelistView(ViewModel):
    """A topic's own list; `inherits` true: it has none and the instance's list alone decides."""

    topic: str
    inherits: bool
    cidrs: list[str]


class TopicWhitelistSet(RequestModel):
    """PUT a topic's own list. An empty list admits nobody."""

    cidrs: Cidrs


class RefusalView(ViewModel):
    """An address that the whitelist turned away."""

    address: str
    at: datetime
    gateway: str


class RefusalList(ViewModel):
    """GET /v1/instances/{id}/refusals: the last 50, newest first, and closed connections by cause."""

    items: list[RefusalView]
    closed: dict[str, int] = Field(description="connections closed since the gateways started, by cause")


# --- operators -------------------------------------------------------------------------------------


class GatewayView(ViewModel):
    """A gateway worker that follows the feed."""

    consumer: str
    applied_revision: int
    live: bool
    connections: int


class HealthView(ViewModel):
    """GET /v1/health. Without credentials only `status` is told."""

    status: str = Field(examples=["ok", "degraded"])
    revision: int | None = None
    brokers_live: int | None = None
    gateways: list[GatewayView] | None = None
    quota_master: bool | None = Field(default=None, description="whether the quota master answers")
    absent_instances: int | None = Field(
        default=None, description="held by brokers or gateways, and not known to the database"
    )
    redis: str | None = Field(
        default=None, description="`ok`, or why it is not used; null: none is configured", examples=["ok"]
    )


class AuditView(ViewModel):
    """One write: who did what to which thing."""

    id: int
    at: datetime
    actor: str
    tenant: str | None
    action: str = Field(examples=["instance.create"])
    subject: str
    instance_name: str | None = Field(
        description="of the instance that `subject` is, as it is called now; null: it is none",
        examples=["shop"],
    )
    detail: str
    address: str | None


class AuditList(ViewModel):
    """GET /v1/audit, newest first, one page."""

    items: list[AuditView]
    next_cursor: str | None
