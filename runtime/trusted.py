"""What HTTP clients trust: reading every authority of the machine takes some 50 ms of a core each time."""

import ssl
from functools import cache


@cache
def authorities() -> ssl.SSLContext:
    """Verifies servers by the machine's authorities, read once a process."""
    return ssl.create_default_context()


def verify_of(url: str) -> ssl.SSLContext | bool:
    """httpx's `verify` for a client of one URL: behind plain HTTP nobody is trusted, and no file is read."""
    return True if url.lower().startswith("https:") else _nobody()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
