"""Why the broker closes connections; the value is the metric's label."""

from enum import StrEnum


class CloseCause(StrEnum):
    """Every closed connection has exactly one."""

    CLIENT_CLOSED = "client_closed"
    CLIENT_RESET = "client_reset"
    FRAME_SIZE_NEGATIVE = "frame_size_negative"
    FRAME_TOO_LARGE = "frame_too_large"
    FRAME_TOO_SMALL = "frame_too_small"
    FRAME_STALLED = "frame_stalled"
    FRAME_TOO_SLOW = "frame_too_slow"
    FRAME_GIVEN_UP = "frame_given_up"
    """It stood still while others needed its memory."""
    MALFORMED_REQUEST = "malformed_request"
    UNKNOWN_API = "unknown_api"
    UNSUPPORTED_VERSION = "unsupported_version"
    NOT_AUTHENTICATED = "not_authenticated"
    AUTHENTICATION_FAILED = "authentication_failed"
    AUTHENTICATION_TIMEOUT = "authentication_timeout"
    ACKS_ZERO_REFUSED = "acks_zero_refused"
    IDLE = "idle"
    REPLY_NOT_READ = "reply_not_read"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    INSTANCE_NOT_SERVED = "instance_not_served"
    STORAGE_ERROR = "storage_error"
    INTERNAL_ERROR = "internal_error"
    SHUTDOWN = "shutdown"
