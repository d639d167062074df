"""Regular expressions over names, anchored inside an instance (KIP-848, ListTransactions v2)."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

from wire.faults import NotMappable
from wire.scope import Scope

PATTERN_BYTES_MAX: Final = 2_000
"""A longer pattern is refused; one of a client names a few prefixes."""
_PHYSICAL_BYTES_MAX: Final = PATTERN_BYTES_MAX + 48
_PROGRAM_BYTES_MAX: Final = 256 * 1024
"""Of a compiled pattern: `(a{1000}){1000}` is refused."""
_KEPT: Final = 1_000
_GROUP_FLAGS: Final = re.compile(r"\(\?(?!:)")
_UNSURE_ESCAPE: Final = re.compile(r"\\[^dDwWsS.\\+*?()\[\]{}|^$_-]")
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL)


@lru_cache(maxsize=_KEPT)
def compiled_pattern(pattern: str) -> Callable[[str], object] | None:
    """What a pattern of RE2 says of a whole name; None: it is none, or too large a one.

    RE2's time is linear in what it is held against. A backtracking engine could be held up for hours by
    twenty characters of a tenant's.
    """
    if len(pattern.encode()) > _PHYSICAL_BYTES_MAX:
        return None
    options = re2.Options()
    options.max_mem = _PROGRAM_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        fullmatch: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    except re2.error:
        return None
    return fullmatch


def checked_pattern(pattern: str) -> str:
    """A tenant's pattern as it can stand inside another: without the anchors around its alternatives, which
    say nothing because a whole name is to match.

    A backend's engine is RE2 or RE2/J. A pattern that closes the group around it early would look outside of
    the instance: so it must be whole by itself to RE2, whose reading counts (Python's differs in classes like
    `[[:alpha:](]`), and flags, look-around and escapes that other engines read otherwise are refused.
    Raises: NotMappable.
    """
    if _GROUP_FLAGS.search(pattern) or _UNSURE_ESCAPE.search(pattern):
        raise NotMappable("the regular expression uses more than groups, classes and plain escapes")
    invalid = "the regular expression is not valid to RE2, or too large"
    if len(pattern.encode()) > PATTERN_BYTES_MAX or compiled_pattern(pattern) is None:
        raise NotMappable(invalid)
    free = _without_anchors(pattern)
    if compiled_pattern(free) is None:
        raise NotMappable(invalid)
    return free


def physical_pattern(pattern: str, scope: Scope) -> str:
    """The pattern for physical names of this instance only. Empty means 'none' and stays.

    Raises: NotMappable.
    """
    return f"{scope.instance_id}\\.(?:{checked_pattern(pattern)})" if pattern else pattern


def tenant_pattern(pattern: str, scope: Scope) -> str:
    """The reverse, for descriptions of groups."""
    head = f"{scope.instance_id}\\.(?:"
    if pattern.startswith(head) and pattern.endswith(")"):
        return pattern[len(head) : -1]
    return ""


def _without_anchors(pattern: str) -> str:
    depth = 0
    kept: list[str] = []
    for token in _TOKEN.findall(pattern):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif depth == 0 and token == "^" and (not kept or kept[-1] == "|"):
            continue
        elif depth == 0 and token == "|" and kept and kept[-1] == "$":
            kept.pop()
        kept.append(token)
    if kept and kept[-1] == "$":
        kept.pop()
    return "".join(kept)
