"""A row of the table of actions, and what its handler is given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenants.ckafka.request.params import Params
from tenants.console import Console
from tenants.rules.model import Caller

P = TypeVar("P", bound=Params)


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """One request whose sender is known and may send it."""

    plane: Console
    caller: Caller
    params: P


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is done for an action; the handler's value becomes `Result`."""

    name: str
    params: type[Params]
    handle: Callable[[Call[Any]], Awaitable[Any]]
    changes: bool = False
    """Viewers may not, and no signature may twice."""
    rest: str
    """What the same is in the REST API, for the documentation."""
    ignored: tuple[str, ...] = ()
    """Parameters that CKafka has and that mean nothing here."""
    refused: tuple[str, ...] = ()
    """Parameters that ask for something this service does not do."""
