"""Structured logs: one line per event, keys say who and where. JSON unless a person is watching."""

import logging
import sys
from typing import Any, cast

import structlog


def configure(process: str, *, json: bool | None = None, level: int = logging.INFO) -> None:
    """Set up logging of this process, to stderr; `json` None chooses by whether that is a terminal."""
    as_json = not sys.stderr.isatty() if json is None else json
    renderer: Any = structlog.processors.JSONRenderer() if as_json else for_people()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_process(process),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def for_people() -> structlog.dev.ConsoleRenderer:
    """Lines for a terminal. A traceback with pictures, which is the default, takes seconds of the loop."""
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _add_process(process: str) -> Any:
    def add(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event["process"] = process
        return event

    return add


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger that carries the module's name."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger(module=name))
