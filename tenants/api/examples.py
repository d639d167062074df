"""Whole examples of requests and answers, put together from the examples of their fields. Pure.

Made so, they cannot say what the schemas do not; a test validates each.
"""

from typing import Any, Final

_DEPTH_MAX: Final = 6
_PLAIN: Final[dict[str, Any]] = {"integer": 1, "number": 1.0, "string": "", "boolean": False, "null": None}


def example_of(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> Any:
    """One value that the schema admits. What is very deep is left out where it may be."""
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, depth)
    if "properties" in schema:
        return {
            name: example_of(one, schemas, depth + 1)
            for name, one in schema["properties"].items()
            if name in schema.get("required", ()) or depth < _DEPTH_MAX
        }
    if "items" in schema:
        return [example_of(schema["items"], schemas, depth + 1)]
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        if schema.get(key):
            first = schema[key][0]
            return first if key == "enum" else example_of(first, schemas, depth)
    return schema.get("const", _PLAIN.get(str(schema.get("type")), {}))
