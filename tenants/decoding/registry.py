"""Schemas of a tenant's registry, by the API that Confluent's, Karapace and Apicurio (ccompat) answer.

Its address is the tenant's input: it is called like a webhook (`tenants.tenant_http`). A schema of an id
never changes, so it is asked for once.
"""

import asyncio
import base64
import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from contracts.registered_schemas import SchemaName, SchemaText
from runtime.clock import monotonic_ms
from runtime.schema_registry import ACCEPT, Ask, NotHadError, schema_named
from tenants.tenant_http import NoAnswer, Sent, TenantHttp

ANSWER_BYTES_MAX: Final = 512 * 1024
"""Bytes of a registry's answer."""
ASKED_MAX: Final = 20
"""Schemas that one view of messages asks a registry for; records that name more are told so."""
ASKING_MS_MAX: Final = 3_000
"""How long one view of messages asks a registry, over all schemas: the rest of its time is for decoding."""
KEPT_MAX: Final = 200
"""Schemas of registries that are kept of one instance."""
KEPT_IN_ALL_MAX: Final = 2_000
"""Schemas of registries that are kept of all instances: who has most loses one first."""
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of schemas that are kept of one instance."""
KEPT_IN_ALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of schemas that are kept of all instances: who has most loses one first."""
REFUSED_MAX: Final = 200
"""Schemas of one instance that it is remembered of that its registry did not tell them."""
_REFUSED_FOR_MS: Final = 30_000
"""A registry that did not have a schema, or did not answer, is not asked for it again so soon."""
_TOO_MANY: Final = f"messages name more than {ASKED_MAX} schemas that were not asked for before"
_TOO_SLOW: Final = f"the schema registry takes longer than {ASKING_MS_MAX // 1000} s"


@dataclass(frozen=True, slots=True)
class Registry:
    """An instance's registry, and how one comes in."""

    instance_id: str
    tenant: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    revision: int = 0
    """Another one: what was kept is of another registry."""


@dataclass(slots=True)
class Asks:
    """How often one view has asked a registry, and how long it may yet."""

    count: int = 0
    left_ms: float = ASKING_MS_MAX


class _Shelf:
    """What one instance's registry has told, and what it has not."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.kept: OrderedDict[SchemaName, SchemaText] = OrderedDict()
        self.bytes = 0
        self.refused: OrderedDict[SchemaName, tuple[str, int]] = OrderedDict()
        """Why, and until when it is not asked again."""

    def keep(self, name: SchemaName, made: SchemaText) -> None:
        """In front of the others."""
        if name not in self.kept:  # another view may have asked meanwhile
            self.bytes += _size(made)
            self.kept[name] = made
        while len(self.kept) > KEPT_MAX or self.bytes > KEPT_BYTES_MAX:
            self.forget()

    def forget(self) -> None:
        """What was not used for longest."""
        self.bytes -= _size(self.kept.popitem(last=False)[1])

    def refuse(self, name: SchemaName, why: str) -> None:
        """For a while."""
        self.refused.pop(name, None)
        self.refused[name] = (why, monotonic_ms() + _REFUSED_FOR_MS)
        while len(self.refused) > REFUSED_MAX:
            self.refused.popitem(last=False)


class Schemas:
    """Those that registries have told."""

    def __init__(self, http: TenantHttp) -> None:
        self._http = http
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()
        """By instance, those in front that were not used for longest."""

    async def of(
        self, registry: Registry, names: Iterable[SchemaName], asks: Asks
    ) -> dict[SchemaName, SchemaText | str]:
        """Schemas by what they are known by, or why one is not had."""
        shelf = self._shelf(registry)
        found: dict[SchemaName, SchemaText | str] = {}
        for name in names:
            kept = shelf.kept.get(name)
            problem, until_ms = shelf.refused.get(name, ("", 0))
            if kept is not None:
                shelf.kept.move_to_end(name)
                found[name] = kept
            elif monotonic_ms() < until_ms:
                found[name] = problem
            elif asks.count >= ASKED_MAX:
                found[name] = _TOO_MANY
            elif asks.left_ms <= 0:
                found[name] = _TOO_SLOW
            else:
                try:
                    found[name] = made = await self._asked_in_time(registry, name, asks)
                    shelf.keep(name, made)
                    self._make_room()
                except NotHadError as fault:
                    found[name] = str(fault)
                    shelf.refuse(name, str(fault))
        return found

    def _shelf(self, registry: Registry) -> _Shelf:
        shelf = self._shelves.get(registry.instance_id)
        if shelf is None or shelf.revision != registry.revision:
            shelf = self._shelves[registry.instance_id] = _Shelf(registry.revision)
        self._shelves.move_to_end(registry.instance_id)
        while len(self._shelves) > KEPT_IN_ALL_MAX:
            self._shelves.popitem(last=False)
        return shelf

    def _make_room(self) -> None:
        """At the expense of who has most: no instance's schemas drive out those of one that has few."""
        shelves = self._shelves.values()
        while sum(len(one.kept) for one in shelves) > KEPT_IN_ALL_MAX:
            max(shelves, key=lambda one: len(one.kept)).forget()
        while sum(one.bytes for one in shelves) > KEPT_IN_ALL_BYTES_MAX:
            max(shelves, key=lambda one: one.bytes).forget()

    async def _asked_in_time(self, registry: Registry, name: SchemaName, asks: Asks) -> SchemaText:
        """Raises: NotHadError."""
        asks.count += 1
        began_ms = monotonic_ms()
        try:
            async with asyncio.timeout(asks.left_ms / 1000):
                return await schema_named(self._ask(registry), name)
        except TimeoutError:
            raise NotHadError(_TOO_SLOW) from None
        finally:
            asks.left_ms -= monotonic_ms() - began_ms

    def _ask(self, registry: Registry) -> Ask:
        headers = [("Accept", ACCEPT)]
        if registry.user or registry.password:
            said = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {said}"))

        async def ask(path: str) -> tuple[int, bytes]:
            url = registry.url.rstrip("/") + path
            try:
                return await self._http.call(
                    registry.tenant, Sent("GET", url, headers, answer_bytes_max=ANSWER_BYTES_MAX)
                )
            except NoAnswer as error:
                raise NotHadError(f"the schema registry cannot be asked: {error}") from error

        return ask


def _size(schema: SchemaText) -> int:
    return _bytes(schema.text) + sum(_bytes(name) + _bytes(text) for name, text in schema.references)


def _bytes(text: str) -> int:
    """In memory, where one character beyond Latin-1 makes a whole text twice as large, or four times."""
    return sys.getsizeof(text)
