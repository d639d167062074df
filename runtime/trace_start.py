"""Begins the traces of a process, where its environment asks for them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.trace_settings import settings_of

if TYPE_CHECKING:
    from runtime.tracing import Tracing


def tracing_of(variables: Mapping[str, str], service: str, process: str) -> "Tracing | None":
    """The tracing of a process, or None: then nothing of OpenTelemetry is imported. Raises: SystemExit."""
    settings = settings_of(variables)
    if settings is None:
        return None
    from runtime.tracing import Tracing

    return Tracing(settings, service, process)
