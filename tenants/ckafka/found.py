"""Instances of a caller, by their CKafka ids, and pages of listings by offset."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from tenants.ckafka.action import Call
from tenants.ckafka.request.params import instance_id_of
from tenants.rules.errors import NotFound
from tenants.rules.model import Instance

T = TypeVar("T")
_PAGE: Final = 1_000


async def instance_of(call: Call[Any]) -> Instance:
    """The instance that parameter InstanceId names. Raises: ApiError, NotFound, which read the same and do
    so as well when it is somebody else's."""
    named = call.params.instance_id
    own = instance_id_of(named)
    try:
        return await asyncio.to_thread(call.plane.instances.get, call.caller, own)
    except NotFound as error:
        raise NotFound(f"there is no instance '{named[:80]}'") from error


async def all_instances(call: Call[Any]) -> list[Instance]:
    """Every instance of the caller's tenant, by name."""

    def read() -> list[Instance]:
        found: list[Instance] = []
        while True:
            after = (found[-1].tenant, found[-1].name) if found else None
            page = call.plane.instances.page(call.caller.tenant, after, _PAGE)
            found += page
            if len(page) < _PAGE:
                return found

    return await asyncio.to_thread(read)


def window(items: Sequence[T], offset: int, limit: int) -> Sequence[T]:
    """A page of a listing."""
    return items[offset : offset + limit]
