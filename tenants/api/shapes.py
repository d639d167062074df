"""What rules ask of values, as the document says it: patterns, bounds, and which fields go together.

Rules refuse the rest with sentences of their own, so that the document can be believed: who sends what it
admits gets no 422 (`tenants.rules.lifecycle.unfit`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic.fields import FieldInfo

from contracts.names import ID_SHAPE, TOPIC_SHAPE
from contracts.request_time import REQUEST_PERCENT_MAX, REQUEST_PERCENT_MIN
from tenants.rules.cidrs import CIDR_SHAPE
from tenants.rules.lifecycle import (
    CAPACITY_MAX_BYTES,
    CAPACITY_MIN_BYTES,
    LIMIT_BOUNDS,
    NAME_SHAPE,
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    WHITELIST_ENTRIES_MAX,
)

Schema = dict[str, Any]
NULL: Final[Schema] = {"type": "null"}
LONG_MAX: Final = 2**63 - 1


def bounded(lowest: int, highest: int) -> FieldInfo:
    """A whole number between two bounds, which a rule refuses in its own words."""
    field: FieldInfo = Field(ge=0, le=LONG_MAX, json_schema_extra={"minimum": lowest, "maximum": highest})
    return field


def limit(name: str) -> FieldInfo:
    """A limit of an instance."""
    return bounded(*LIMIT_BOUNDS[name])


Name = Annotated[str, Field(json_schema_extra={"pattern": NAME_SHAPE, "not": {"pattern": ID_SHAPE}})]
TopicName = Annotated[str, Field(json_schema_extra={"pattern": TOPIC_SHAPE, "not": {"enum": [".", ".."]}})]
Cidr = Annotated[str, Field(json_schema_extra={"pattern": CIDR_SHAPE})]
Cidrs = Annotated[
    list[Cidr], Field(max_length=WHITELIST_ENTRIES_MAX, examples=[["10.0.0.0/8", "2001:db8::/32"]])
]
Rate = Annotated[int, bounded(RATE_MIN_BYTES_PER_S, RATE_MAX_BYTES_PER_S)]
Capacity = Annotated[int, bounded(CAPACITY_MIN_BYTES, CAPACITY_MAX_BYTES)]
Percent = Annotated[
    int,
    Field(
        ge=0,
        le=REQUEST_PERCENT_MAX,
        json_schema_extra={"not": {"minimum": 1, "maximum": REQUEST_PERCENT_MIN - 1}},
    ),
]


def where(field: str, value: object, then: Schema, otherwise: Schema | None = None) -> Schema:
    """What holds of an object where one of its fields has a value, and where it has another or none."""
    said: Schema = {"if": {"properties": {field: {"const": value}}, "required": [field]}, "then": then}
    return said if otherwise is None else said | {"else": otherwise}


def by(field: str, kinds: Mapping[str, Schema]) -> Schema:
    """What holds of an object by the value of one of its fields, which is always there."""
    said: Schema = {}
    for value, then in reversed(list(kinds.items())):
        said = where(field, value, then, said or None)
    return said


def of(*required: str, **properties: Schema) -> Schema:
    """Fields that an object has to have, and what is true of some."""
    said: Schema = {"properties": properties} if properties else {}
    return said | {"required": list(required)} if required else said
