"""Typed name rewriting of decoded messages, for every API and version that kio has (design: Names).

`rewrite_request` adds the instance's scope to every name on the way up. `rewrite_response` takes it off on
the way down, drops list entries that belong to somebody else, and shows the instance's own addresses,
cluster id and sizes instead of the cluster's. What is done to a field follows from its class
(`wire.classify`); one rewriter per message class is put together once and kept.
"""

from typing import Any

from wire.rewrite_compile import rewrite_down, rewrite_up
from wire.scope import Scope, View

__all__ = ("Scope", "View", "rewrite_request", "rewrite_response")


def rewrite_request(entity: Any, scope: Scope) -> Any:
    """The request as the backend gets it; the same object when it names nothing. Null names stay null.

    Raises: NameTooLong, EmptyName (group and transactional ids), NotMappable (no form inside an instance).
    """
    return rewrite_up(entity, scope)


def rewrite_response(entity: Any, scope: Scope, view: View) -> Any:
    """The response as the tenant gets it; the same object when nothing in it had to change.

    Raises: ForeignName when somebody else's name stands where it cannot be left out.
    """
    return rewrite_down(entity, scope, view)
