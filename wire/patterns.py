"""Regular expressions over names, anchored inside an instance (KIP-848, ListTransactions v2)."""

import re
from typing import Final

from wire.faults import NotMappable
from wire.scope import Scope

_GROUP_FLAGS: Final = re.compile(r"\(\?(?!:)")
_UNSURE_ESCAPE: Final = re.compile(r"\\[^dDwWsS.\\+*?()\[\]{}|^$_-]")


def physical_pattern(pattern: str, scope: Scope) -> str:
    """The pattern for physical names of this instance only. Empty means 'none' and stays.

    The backend parses the pattern with RE2. A pattern that closes our group early would look outside the
    instance, so only what Python's and RE2's grammars read alike is let through: no inline flags, no
    look-around, no escapes but the plain ones.
    Raises: NotMappable.
    """
    if pattern == "":
        return pattern
    if _GROUP_FLAGS.search(pattern) or _UNSURE_ESCAPE.search(pattern):
        raise NotMappable("the regular expression uses more than groups, classes and plain escapes")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise NotMappable(f"the regular expression is not valid: {error}") from error
    return f"{scope.instance_id}\\.(?:{pattern})"


def tenant_pattern(pattern: str, scope: Scope) -> str:
    """The reverse, for descriptions of groups."""
    head = f"{scope.instance_id}\\.(?:"
    if pattern.startswith(head) and pattern.endswith(")"):
        return pattern[len(head) : -1]
    return ""
