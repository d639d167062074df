"""Times as the API takes them: RFC 3339 with a zone, and nothing else that Pydantic would take for one."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

_RFC_3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}):(\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_LEAP: Final = "60"
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


def _time_of(value: object) -> datetime:
    """In UTC; what lies beyond the years 1 to 9999 there is their end. Raises: PydanticCustomError."""
    found = _RFC_3339.fullmatch(value) if isinstance(value, str) else None
    try:
        if found is None:
            raise ValueError(value)
        date, minutes, seconds, fraction, zone = found.groups(default="")
        told = f"{date}T{minutes}:{'59' if seconds == _LEAP else seconds}.{fraction[:6]:0<6}"
        time = datetime.fromisoformat(told + ("+00:00" if zone in "Zz" else zone))
    except ValueError:
        raise PydanticCustomError(
            "time", "must be a time with a zone, such as 2026-11-01T00:00:00Z"
        ) from None
    try:
        return time.astimezone(UTC) + timedelta(seconds=seconds == _LEAP)
    except OverflowError:
        return _FIRST if time.year == 1 else _LAST


Time = Annotated[datetime, BeforeValidator(_time_of)]
"""A time in a query or a body."""
