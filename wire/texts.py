"""Error texts of a backend as a tenant may read them."""

import re
from typing import Final

from wire.scope import Scope

NEUTRAL: Final = "the cluster refused the request"
_SYSTEM_SCOPE: Final = "i00000000000"
_SCOPE_LIKE: Final = re.compile(r"i[a-z2-7]{11}\.")


def tenant_text(text: str, scope: Scope) -> str:
    """The text with our own physical names mapped back, or a neutral one when it names anybody else.

    An English word of twelve letters before a full stop ('insufficient.') looks like a scope too and makes
    the text neutral: better a dull sentence than a neighbour's name.
    """
    if scope.prefix in text:
        text = text.replace(scope.prefix, "")
    if _SYSTEM_SCOPE in text or _SCOPE_LIKE.search(text) is not None:
        return NEUTRAL
    return text
