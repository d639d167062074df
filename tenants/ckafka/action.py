"""A row of the table of actions, and what its handler is given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from tenants.ckafka.request.params import Params
from tenants.console import Console
from tenants.rules.model import Caller
from tenants.rules.permissions import Permission, operations

P = TypeVar("P", bound=Params)


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """One request whose sender is known and may send it."""

    plane: Console
    caller: Caller
    params: P


@dataclass(frozen=True, kw_only=True)
class Action:
    """What is done for an action; the handler's value becomes `Result`."""

    name: str
    handle: Callable[[Call[Any]], Awaitable[Any]]
    changes: bool = False
    """No signature may twice."""
    rest: str
    """What the same is in the REST API, by operations; it needs what they need."""
    ignored: tuple[str, ...] = ()
    """Parameters that CKafka has and that mean nothing here."""
    refused: tuple[str, ...] = ()
    """Parameters that ask for something this service does not do."""

    @cached_property
    def permissions(self) -> frozenset[Permission]:
        """What a caller needs."""
        table = dict(operations())
        return frozenset(table[one] for one in self.rest.split(", ") if one in table)

    @cached_property
    def params(self) -> type[Params]:
        """What the handler's one argument is a `Call` of."""
        params: type[Params] = get_args(next(iter(get_type_hints(self.handle).values())))[0]
        return params
