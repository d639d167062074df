"""Why a client's connection ended: one closed list, and the label of the metric and of gateway reports."""

from enum import StrEnum


class DisconnectCause(StrEnum):
    """Every way a connection can end. Whose doing it was is in the comment of each group."""

    # The client's own doing, in order.
    CLIENT_CLOSED = "client_closed"
    """The client ended it, and all that it had asked was answered."""
    CLIENT_RESET = "client_reset"
    """The client's socket broke."""

    # Refused at accept: nothing was read.
    NOT_WHITELISTED = "not_whitelisted"
    """No entry of the instance's whitelist has the address."""
    CONNECTIONS_MAX = "connections_max"
    """The instance has `connections_max` connections."""
    CONNECTIONS_PER_IP_MAX = "connections_per_ip_max"
    """The address has `connections_per_ip_max` connections."""
    CONNECTION_RATE_MAX = "connection_rate_max"
    """The instance opened `connection_rate_max` connections within the second."""
    INSTANCE_SUSPENDED = "instance_suspended"
    """The instance is suspended; also ends the connections it has."""
    INSTANCE_NOT_SERVED = "instance_not_served"
    """The instance was deleted while the client came."""
    PROXY_HEADER_BAD = "proxy_header_bad"
    """A listed load balancer sent something else than a PROXY header of version 2."""
    PROXY_HEADER_TIMEOUT = "proxy_header_timeout"
    """A listed load balancer sent no whole PROXY header within `first_byte_ms`."""
    PROXY_LOCAL = "proxy_local"
    """A load balancer's own connection, as those of its health checks are, and its address is on no list."""

    # The instance changed under a live connection.
    WHITELIST_CHANGED = "whitelist_changed"
    """The address is not on the whitelist any more."""
    INSTANCE_DELETED = "instance_deleted"
    """The instance was deleted."""
    INSTANCE_ABSENT = "instance_absent"
    """The feed tells of the instance no more."""
    INSTANCE_MOVED = "instance_moved"
    """The instance goes to another cluster: clients come again, and wait until it is there."""
    LISTENER_REMOVED = "listener_removed"
    """The vip:vport does not belong to the instance any more."""
    GATEWAY_STOPPED = "gateway_stopped"
    """The worker stops."""
    GATEWAY_REPLACED = "gateway_replaced"
    """Another worker has taken over; nothing of the connection was under way."""
    FAULT_INJECTED = "fault_injected"
    """The tenant has injected a fault that ends connections."""
    USER_CHANGED = "user_changed"
    """The client's user was deleted, or has another password now."""

    # The client was slow or silent while we were reading.
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    """No head of a request within `first_byte_ms` of the accept."""
    FRAME_TIMEOUT = "frame_timeout"
    """A request that was begun did not come on fast enough (`frame_ms`)."""
    IDLE_TIMEOUT = "idle_timeout"
    """No request within `idle_ms`."""
    LOGIN_TIMEOUT = "login_timeout"
    """No login within `login_ms` where one is asked for."""
    DRAIN_TIMEOUT = "drain_timeout"
    """One side had closed, and the rest was not taken within `drain_ms`."""

    # TLS.
    NOT_TLS = "not_tls"
    """Something else at a vport of TLS: a client with security.protocol PLAINTEXT or SASL_PLAINTEXT."""
    TLS_TO_PLAIN = "tls_to_plain"
    """TLS at a vport without: a client with security.protocol SSL or SASL_SSL."""
    TLS_HANDSHAKE_FAILED = "tls_handshake_failed"
    """The two did not agree, or one refused the other's certificate; the log has OpenSSL's words."""
    TLS_HANDSHAKE_TIMEOUT = "tls_handshake_timeout"
    """No whole handshake within `first_byte_ms` of being read, or `handshake_ms` of the accept."""
    TLS_HANDSHAKES_MAX = "tls_handshakes_max"
    """The oldest handshake of the address that has most, while `HANDSHAKES_MAX` are under way."""
    SERVER_NAME_MISSING = "server_name_missing"
    """A hello without a server name at the port that serves by names."""
    SERVER_NAME_UNKNOWN = "server_name_unknown"
    """The name is no instance's, or none of its brokers'."""
    CERTIFICATE_REFUSED = "certificate_refused"
    """The client's certificate is good, and names no user of the instance."""

    # Where a login is asked for.
    NOT_AUTHENTICATED = "not_authenticated"
    """A request before the login, or a login out of order."""
    AUTHENTICATION_FAILED = "authentication_failed"
    """No such user, or a wrong password; clients are not told which. Also a mechanism that is not served."""
    TOO_MANY_WRONG_PASSWORDS = "too_many_wrong_passwords"
    """A login that was not looked at, because too many from there have failed within a minute."""
    LOGIN_EXPIRED = "login_expired"
    """A request after `login_ms_max` without another login (KIP-368)."""

    # The client's bytes are no request we serve.
    BAD_FRAME_LENGTH = "bad_frame_length"
    """A length prefix below that of the smallest request."""
    REQUEST_TOO_LARGE = "request_too_large"
    """More bytes than the instance or the API allows, or more list entries."""
    MALFORMED_REQUEST = "malformed_request"
    """The bytes are not a request of the API and version that they name."""
    UNSUPPORTED_API = "unsupported_api"
    """An API that tenants are not served."""
    UNSUPPORTED_VERSION = "unsupported_version"
    """A version that is not served, of any API but ApiVersions."""
    BUFFER_BUDGET = "buffer_budget"
    """The instance has too much of half-received requests on this worker."""
    ACKS_ZERO_REFUSED = "acks_zero_refused"
    """A Produce without acknowledgement was refused: nothing else can tell its client."""

    # The backend's side.
    UPSTREAM_UNKNOWN = "upstream_unknown"
    """No broker of that number is known."""
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    """The broker did not take a connection."""
    UPSTREAM_LOGIN_REFUSED = "upstream_login_refused"
    """The broker did not let the gateway in, for this instance or at all."""
    UPSTREAM_TLS_FAILED = "upstream_tls_failed"
    """The broker's certificate is not trusted, or ours is not, or it speaks no TLS; the log says which."""
    UPSTREAM_STRANGER = "upstream_stranger"
    """Another cluster than the instance's answers at the broker's address."""
    UPSTREAM_CLOSED = "upstream_closed"
    """The broker closed the connection; its own cause says why."""
    UPSTREAM_MALFORMED = "upstream_malformed"
    """The broker sent what is no reply to what was asked, or more than a reply may have."""

    # Ours: a bug, logged with its traceback.
    INTERNAL_ERROR = "internal_error"
    """A bug; the log has its traceback."""


REFUSED_AT_ACCEPT = frozenset(
    {
        DisconnectCause.NOT_WHITELISTED,
        DisconnectCause.CONNECTIONS_MAX,
        DisconnectCause.CONNECTIONS_PER_IP_MAX,
        DisconnectCause.CONNECTION_RATE_MAX,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_NOT_SERVED,
        DisconnectCause.INSTANCE_MOVED,
        DisconnectCause.PROXY_HEADER_BAD,
        DisconnectCause.PROXY_HEADER_TIMEOUT,
        DisconnectCause.PROXY_LOCAL,
    }
)
"""Causes of connections that never became one: counted as refused, closed with a reset."""

RESET_AT_ONCE = frozenset(
    {
        DisconnectCause.WHITELIST_CHANGED,
        DisconnectCause.USER_CHANGED,
        DisconnectCause.INSTANCE_SUSPENDED,
        DisconnectCause.INSTANCE_DELETED,
        DisconnectCause.INSTANCE_ABSENT,
        DisconnectCause.INSTANCE_MOVED,
        DisconnectCause.FAULT_INJECTED,
    }
)
"""Causes of connections that are closed with a reset although they stood."""
