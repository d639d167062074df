"""Which records a viewer wants to see, by their text, key, headers and JSON. Pure.

JSON is asked for by RFC 9535, of which a subset is allowed: what could cost more than a few walks over a
value is refused, for it is a tenant that writes both.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery, RelativeFilterQuery
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import Filter as FilterSelector
from jsonpath.selectors import SliceSelector, WildcardSelector

from wire.record_views import RecordView

EXPRESSION_CHARACTERS_MAX: Final = 300
"""Characters of a JSON expression."""
PATHS_MAX: Final = 8
"""Paths in one JSON expression."""
JSON_BYTES_MAX: Final = 262_144
"""Values that are larger are not parsed, and match no JSON expression."""
WALKED_BYTES_MAX: Final = 16_384
"""Values that are larger match no JSON expression with `..`, `*` or a slice: it walks over all of a value."""
WALKS_MAX: Final = 4
"""Times that `*` and slices are in one JSON expression; `..` is there once."""
SEGMENTS_MAX: Final = 5
"""Segments of a path with `..`, which looks for the rest of it at each place of a value."""
_FUNCTIONS: Final = ("count", "length", "value")
"""Not `match` and `search`: their patterns are matched by what backtracks."""


class BadExpression(ValueError):  # noqa: N818 - states what is so
    """A JSON expression that cannot be used; the text says why."""


class JsonCondition:
    """One expression: a path (`$.order.id`), which has to find something, or a condition about the value
    (`@.amount > 100 && @.kind == "new"`)."""

    def __init__(self, expression: str) -> None:
        """Raises: BadExpression."""
        self._is_path = expression.startswith("$")
        if len(expression) > EXPRESSION_CHARACTERS_MAX:
            raise BadExpression(f"has {len(expression)} characters, {EXPRESSION_CHARACTERS_MAX} are the most")
        try:
            path = _ENVIRONMENT.compile(expression if self._is_path else f"$[?{expression}]")
        except (JSONPathError, RecursionError, ValueError, ArithmeticError) as error:
            raise BadExpression(f"is no RFC 9535 expression: {str(error).splitlines()[0]}") from error
        self._path, walks = _checked(path, is_path=self._is_path)
        self._bytes_max = WALKED_BYTES_MAX if walks else JSON_BYTES_MAX

    def holds(self, value: memoryview | None) -> bool:
        """Whether a record's value is JSON of which the condition holds."""
        if value is None or len(value) > self._bytes_max:
            return False
        try:
            decoded = msgspec.json.decode(value)
            if self._is_path and not isinstance(decoded, dict | list):
                return self._path.empty()  # the library would take a string for a document
            found = self._path.finditer(decoded if self._is_path else [decoded])
            return next(iter(found), None) is not None
        except (msgspec.DecodeError, UnicodeDecodeError, JSONPathError, RecursionError):
            return False


class Filter(NamedTuple):
    """What is asked of a record; None: nothing. All has to hold."""

    text: bytes | None = None
    """In the key or the value."""
    key: bytes | None = None
    header: tuple[bytes, bytes | None] | None = None
    """A header of this name, with this value or any."""
    condition: JsonCondition | None = None

    def holds(self, record: RecordView) -> bool:
        """The cheap questions first."""
        return (
            (self.key is None or _is(record.key, self.key))
            and (self.header is None or _has_header(record, *self.header))
            and (self.text is None or _has_text(record, self.text))
            and (self.condition is None or self.condition.holds(record.value))
        )


def _has_text(record: RecordView, text: bytes) -> bool:
    return any(field is not None and text in bytes(field) for field in (record.key, record.value))


def _has_header(record: RecordView, name: bytes, value: bytes | None) -> bool:
    return any(_is(found, name) and (value is None or _is(each, value)) for found, each in record.headers)


def _is(field: memoryview | None, wanted: bytes) -> bool:
    return field is not None and len(field) == len(wanted) and bytes(field) == wanted


class _Environment(JSONPathEnvironment):
    max_recursion_depth = 100

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions = {name: self.function_extensions[name] for name in _FUNCTIONS}


_ENVIRONMENT: Final = _Environment(strict=True)


def _checked(path: JSONPath | CompoundJSONPath, *, is_path: bool) -> tuple[JSONPath, bool]:
    """A path, and whether it walks over values. Raises: BadExpression for what could walk over them often."""
    if not isinstance(path, JSONPath):
        raise BadExpression("is several paths: give one")
    paths = [path]
    if not is_path:
        selectors = [one for segment in path.segments for one in segment.selectors]
        if len(selectors) != 1 or not isinstance(selectors[0], FilterSelector):
            raise BadExpression("is several conditions: join them with && or ||")
        queries = [one for one in _expressions(selectors[0].expression) if isinstance(one, FilterQuery)]
        if not all(isinstance(one, RelativeFilterQuery) for one in queries):
            raise BadExpression("call the value `@` in a condition: `$` stands only before a path alone")
        paths = [one.path for one in queries]
    if len(paths) > PATHS_MAX:
        raise BadExpression(f"has {len(paths)} paths, {PATHS_MAX} are the most")
    segments = [_check_path(one) for one in paths]
    if sum(map(_descends, chain(*segments))) > 1:
        raise BadExpression("has '..' twice: once is the most")
    if any(len(path) > SEGMENTS_MAX and any(map(_descends, path)) for path in segments):
        raise BadExpression(f"has a path with '..' of more than {SEGMENTS_MAX} segments")
    spread = sum(isinstance(one.selectors[0], WildcardSelector | SliceSelector) for one in chain(*segments))
    if spread > WALKS_MAX:
        raise BadExpression(f"has '*' or slices {spread} times, {WALKS_MAX} are the most")
    return path, spread > 0 or any(map(_descends, chain(*segments)))


def _descends(segment: JSONPathSegment) -> bool:
    return isinstance(segment, JSONPathRecursiveDescentSegment)


def _check_path(path: JSONPath) -> tuple[JSONPathSegment, ...]:
    for segment in path.segments:
        if len(segment.selectors) > 1:
            raise BadExpression("has several selectors in one pair of brackets: give one")
        if isinstance(segment.selectors[0], FilterSelector):
            raise BadExpression("has a condition inside of a path")
    return path.segments


def _expressions(root: BaseExpression) -> Iterator[BaseExpression]:
    left = [root]
    while left:
        one = left.pop()
        yield one
        if not isinstance(one, FilterQuery):
            left.extend(one.children())
