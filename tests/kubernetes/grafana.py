"""Grafana's own schema of dashboards, as its foundation SDK has it, and what of a dashboard it refuses.

The SDK's classes are generated from the schemas of Grafana, its panels and data sources. Their parsers drop
what they do not know and check no values, so both is done here: nothing may be lost on the way in and out,
and each value has to be of the type that its field declares.
"""

import enum
import inspect
import json
import typing
import warnings
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Final

with warnings.catch_warnings():  # the classic schema, which every Grafana loads, is called old there
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.cog.runtime import Runtime, UnknownDataquery
    from grafana_foundation_sdk.models import units
    from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

register_default_plugins()
_UNITS: Final = {value for value in vars(units).values() if isinstance(value, str)}


def faults_of(board: dict[str, Any]) -> list[str]:
    """What Grafana would not understand, each with its place."""
    try:
        parsed = Dashboard.from_json(board)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        return [f"it cannot be read: {error!r}"]
    kept = json.loads(json.dumps(parsed, cls=JSONEncoder))
    return [*_lost(board, kept, "dashboard"), *_wrong(parsed, Dashboard, "dashboard")]


def _lost(given: Any, kept: Any, place: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key not in kept:
                yield f"{place}: nobody knows {key}"
            else:
                yield from _lost(value, kept[key], f"{place}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from _lost(one, other, f"{place}.{number}")
    elif given != kept:
        yield f"{place}: {given!r} becomes {kept!r}"


@cache
def _fields(of: Any) -> dict[str, Any]:
    return typing.get_type_hints(of)


def _wrong(value: Any, declared: Any, place: str) -> Iterator[str]:
    """Values that are not of the declared type, here and below."""
    if declared in (Any, object):
        declared = type(value)
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, UnionType):
        if all(any(_wrong(value, each, place)) for each in arguments):
            yield from _wrong(value, _closest(value, arguments), place)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
            return
        for number, each in enumerate(value):
            yield from _wrong(each, arguments[0], f"{place}.{number}")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{place}: {value!r} is no map"
            return
        for key, each in value.items():
            yield from _wrong(each, arguments[1], f"{place}.{key}")
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{place}: {value!r} is none of {arguments}"
    elif inspect.isclass(declared):
        yield from _wrong_of_class(value, declared, place)


def _closest(value: Any, arguments: tuple[Any, ...]) -> Any:
    """Which of several types a value was meant to be."""
    classes = [each for each in arguments if inspect.isclass(each) and isinstance(value, each)]
    others = [each for each in arguments if each is not type(None)]
    return (classes or others)[0]


def _wrong_of_class(value: Any, declared: type, place: str) -> Iterator[str]:
    if issubclass(declared, enum.Enum):
        if value not in [each.value for each in declared]:
            yield f"{place}: {value!r} is none of {[each.value for each in declared]}"
    elif declared is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{place}: {value!r} is no number"
    elif not isinstance(value, declared) or (isinstance(value, bool) and declared is int):
        if isinstance(value, dict) and hasattr(declared, "from_json"):  # the SDK left it as it was
            parsed = declared.from_json(value)
            yield from _lost(value, json.loads(json.dumps(parsed, cls=JSONEncoder)), place)
            yield from _wrong(parsed, declared, place)
        else:
            yield f"{place}: {value!r} is no {declared.__name__}"
    elif hasattr(declared, "from_json") or hasattr(value, "to_json"):
        yield from _wrong_of_ours(value, place)


def _wrong_of_ours(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, UnknownDataquery):
        yield f"{place}: no data source of Grafana knows this query"
        return
    if isinstance(value, Panel) and Runtime().panelcfg_config(value.type_val) is None:
        yield f"{place}: there is no panel {value.type_val!r}"
    own: Any = type(value)
    for name, declared in _fields(own).items():
        field = getattr(value, name)
        yield from _wrong(field, declared, f"{place}.{name}")
        if name == "unit" and field is not None and field not in _UNITS:
            yield f"{place}.unit: there is no unit {field!r}"
