"""What routes are handed: the console, the caller, the instance, a page."""

import asyncio
import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request

from tenants.console import Console
from tenants.rules.errors import Invalid, Unauthenticated
from tenants.rules.lifecycle import NAME_SHAPE, unfit
from tenants.rules.model import Caller, Instance


async def console_of(request: Request) -> Console:
    """The control plane this application serves."""
    console: Console = request.app.state.console
    return console


def maybe_caller(request: Request) -> Caller | None:
    """Who asks, None without credentials (only on routes open to all)."""
    caller: Caller | None = request.state.caller
    return caller


async def caller_of(request: Request) -> Caller:
    """Who asks."""
    caller = maybe_caller(request)
    if caller is None:
        raise Unauthenticated("log in, or send an API key as Authorization: Bearer")
    return caller


_CURSOR_CHARACTERS_MAX: Final = 6_000
"""A thousand characters of a group's name, four bytes each, and base64."""
EVERYBODY: Final = "*"
"""What operators name instead of a tenant."""
Plane = Annotated[Console, Depends(console_of)]
Asker = Annotated[Caller, Depends(caller_of)]
Tenant = Annotated[
    str | None,
    Query(description="operators: the tenant to act for, `default` by default", max_length=64),
]


Search = Annotated[
    str,
    Query(
        description="only those whose name has this text, whatever its case",
        max_length=100,
        pattern=r"^[^\x00]*$",  # of which no database makes a text
    ),
]


def has_text(name: str, search: str) -> bool:
    """Whether a name is one that is searched for; an empty search is for all."""
    return search.casefold() in name.casefold()


async def home_or_all(plane: Console, caller: Caller, tenant: str | None) -> str | None:
    """The tenant whose things are listed; None: everybody's, which only operators may name."""
    if tenant == EVERYBODY and caller.is_operator:
        return None
    return await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)


InstanceRef = Annotated[
    str,
    Path(
        description="id, or name within the tenant",
        max_length=64,
        examples=["iabcdefghijk"],
        json_schema_extra={"pattern": NAME_SHAPE},  # what is none is not found
    ),
]


async def instance_of(plane: Plane, caller: Asker, instance: InstanceRef, tenant: Tenant = None) -> Instance:
    """The instance of the path. Raises: NotFound, also when it is somebody else's."""
    if tenant is not None:
        await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    return await asyncio.to_thread(plane.instances.get, caller, instance, tenant)


Found = Annotated[Instance, Depends(instance_of)]


async def billed_instance_of(
    plane: Plane, caller: Asker, instance: InstanceRef, tenant: Tenant = None
) -> Instance:
    """The instance as bills know it: a deleted one is found by its id."""
    if tenant is not None:
        await asyncio.to_thread(plane.accounts.tenant_for, caller, tenant)
    return await asyncio.to_thread(plane.instances.get_billed, caller, instance, tenant)


Billed = Annotated[Instance, Depends(billed_instance_of)]


@dataclass(frozen=True, slots=True)
class Page:
    """How much of a listing, and behind which key."""

    limit: int
    after: list[Any] | None

    def next_cursor(self, items: int, key: list[Any] | None) -> str | None:
        """The cursor behind the last item, None when the page was not full."""
        if items < self.limit or key is None:
            return None
        return written(json.dumps(key, ensure_ascii=False).encode(errors="replace"))


def written(place: bytes) -> str:
    """A cursor, of letters that stay as they are in a query."""
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def read(cursor: str) -> bytes:
    """What was written as a cursor. Raises: ValueError."""
    return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)


async def page_of(
    limit: Annotated[int, Query(ge=1, le=1000, description="items of a page")] = 200,
    cursor: Annotated[
        str | None,
        Query(
            max_length=_CURSOR_CHARACTERS_MAX,
            pattern="^[A-Za-z0-9_-]+$",
            description="next_cursor of the last page",
        ),
    ] = None,
) -> Page:
    """The page asked for. Raises: Invalid."""
    if cursor is None:
        return Page(limit, None)
    try:
        after = json.loads(read(cursor))
    except (ValueError, RecursionError) as error:
        raise bad_cursor() from error
    if not isinstance(after, list) or not all(map(_is_key, after)):
        raise bad_cursor()
    return Page(limit, after)


def _is_key(value: object) -> bool:
    if isinstance(value, int):
        return 0 <= value < 2**63
    return isinstance(value, str) and all(
        0 < ord(letter) < 0xD800 or ord(letter) > 0xDFFF for letter in value
    )


Paging = Annotated[Page, Depends(page_of)]


def after_key(page: Page, *kinds: type) -> Any:
    """The key behind which the page starts, checked: one value, or a tuple of several."""
    if page.after is None:
        return None
    if [type(one) for one in page.after] != list(kinds):
        raise bad_cursor()
    return tuple(page.after) if len(kinds) > 1 else page.after[0]


def bad_cursor() -> Invalid:
    """The refusal of a cursor that no page has told."""
    return Invalid([unfit("cursor", "is not a next_cursor of this listing")])


def at(epoch_ms: int) -> datetime:
    """Epoch ms as the API tells times."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
