"""The console's traces: its requests by FastAPI itself, here what they ask of others (ADR 33)."""

from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor
from opentelemetry.trace import TracerProvider

from tenants.console import Console


def trace_calls(console: Console, provider: TracerProvider) -> None:
    """Spans of calls of the quota master and of statements, which are told without their values."""
    HTTPXClientInstrumentor().instrument(tracer_provider=provider)
    # It refuses SQLAlchemy 2.1, with a line in the log, for its range only: the engine's events are the same.
    SQLAlchemyInstrumentor().instrument(
        engine=console.store.engine, tracer_provider=provider, skip_dep_check=True
    )
