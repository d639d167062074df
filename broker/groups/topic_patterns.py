"""Topics that members subscribe to by a regular expression."""

from collections.abc import Iterable

from wire.patterns import compiled_pattern


def is_pattern(pattern: str) -> bool:
    """Whether topics can be subscribed to by it."""
    return compiled_pattern(pattern) is not None


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole pattern matches; none for what is no pattern."""
    matches = compiled_pattern(pattern)
    return frozenset() if matches is None else frozenset(filter(matches, names))
