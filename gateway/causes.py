"""Why a client's connection ended: one closed list, and the label of the metric and of gateway reports."""

from enum import StrEnum


class DisconnectCause(StrEnum):
    """Every way a connection can end. Whose doing it was is in the comment of each group."""

    # The client's own doing, in order.
    CLIENT_CLOSED = "client_closed"
    CLIENT_RESET = "client_reset"

    # Refused at accept: nothing was read.
    NOT_WHITELISTED = "not_whitelisted"
    CONNECTIONS_MAX = "connections_max"
    CONNECTIONS_PER_IP_MAX = "connections_per_ip_max"
    CONNECTION_RATE_MAX = "connection_rate_max"
    INSTANCE_SUSPENDED = "instance_suspended"
    INSTANCE_NOT_SERVED = "instance_not_served"

    # The instance changed under a live connection.
    WHITELIST_CHANGED = "whitelist_changed"
    INSTANCE_DELETED = "instance_deleted"
    INSTANCE_ABSENT = "instance_absent"
    LISTENER_REMOVED = "listener_removed"
    GATEWAY_STOPPED = "gateway_stopped"

    # The client was slow or silent while we were reading.
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    FRAME_TIMEOUT = "frame_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    DRAIN_TIMEOUT = "drain_timeout"

    # The client's bytes are no request we serve.
    BAD_FRAME_LENGTH = "bad_frame_length"
    REQUEST_TOO_LARGE = "request_too_large"
    MALFORMED_REQUEST = "malformed_request"
    UNSUPPORTED_API = "unsupported_api"
    UNSUPPORTED_VERSION = "unsupported_version"
    BUFFER_BUDGET = "buffer_budget"
    ACKS_ZERO_REFUSED = "acks_zero_refused"

    # The backend's side.
    UPSTREAM_UNKNOWN = "upstream_unknown"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_LOGIN_REFUSED = "upstream_login_refused"
    UPSTREAM_CLOSED = "upstream_closed"
    UPSTREAM_MALFORMED = "upstream_malformed"

    # Ours: a bug, logged with its traceback.
    INTERNAL_ERROR = "internal_error"


REFUSED_AT_ACCEPT = frozenset(
    {
        DisconnectCause.NOT_WHITELISTED,
        DisconnectCause.CONNECTIONS_MAX,
        DisconnectCause.CONNECTIONS_PER_IP_MAX,
        DisconnectCause.CONNECTION_RATE_MAX,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_NOT_SERVED,
    }
)
"""Causes of connections that never became one: counted as refused, closed with a reset."""
