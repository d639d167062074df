"""Build kio responses for whatever version the client speaks: values a version does not have are left out."""

import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

from wire.codec import duration, response_class


@lru_cache(maxsize=512)
def _field_names(cls: Any) -> frozenset[str]:
    return frozenset(name for name in cls.__dataclass_fields__ if not name.startswith("__"))


def make(cls: Any, /, **values: Any) -> Any:
    """An entity of `cls` from those values that its version has."""
    names = _field_names(cls)
    return cls(**{name: value for name, value in values.items() if name in names})


def throttled(entity: Any, throttle_time_ms: int) -> Any:
    """The response with its throttle_time_ms, where its version has one."""
    if "throttle_time" not in _field_names(entity.__class__):
        return entity
    return replace(entity, throttle_time=duration(throttle_time_ms))


class ResponseShape:
    """The response classes of one API and version: `shape.make(...)`, `shape.nested("Name", ...)`."""

    __slots__ = ("_cls", "_module")

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self._module = sys.modules[cls.__module__]

    def make(self, **values: Any) -> Any:
        """The response itself."""
        return make(self._cls, **values)

    def has(self, name: str) -> bool:
        """Whether this version has such elements."""
        return hasattr(self._module, name)

    def nested(self, name: str, /, **values: Any) -> Any:
        """One of its elements, by the name of the schema."""
        return make(getattr(self._module, name), **values)


@lru_cache(maxsize=512)
def response_shape(api_key: int, api_version: int) -> ResponseShape:
    """The shape of one response."""
    return ResponseShape(response_class(api_key, api_version))
