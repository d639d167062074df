"""Schemas of a tenant's registry, by the API that Confluent's, Karapace and Apicurio (ccompat) answer.

Its address is the tenant's input: it is called like a webhook (`tenants.tenant_http`). A schema of an id
never changes, so it is asked for once.
"""

import base64
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

import msgspec

from runtime.clock import monotonic_ms
from tenants.decoding.messages import SchemaText
from tenants.rules.decoding import SchemaKind, SchemaName
from tenants.tenant_http import NoAnswer, Sent, TenantHttp

ANSWER_BYTES_MAX: Final = 512 * 1024
"""Bytes of a registry's answer."""
REFERENCES_MAX: Final = 30
"""Schemas that one refers to, over all levels."""
ASKED_MAX: Final = 20
"""Schemas that one view of messages asks a registry for; records that name more are told so."""
KEPT_MAX: Final = 200
"""Schemas of registries that are kept of one instance."""
KEPT_IN_ALL_MAX: Final = 2_000
"""Schemas of registries that are kept of all."""
_KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
_REFUSED_FOR_MS: Final = 30_000
"""A registry that did not have a schema, or did not answer, is not asked for it again so soon."""
_TOO_MANY: Final = f"messages name more than {ASKED_MAX} schemas that were not asked for before"


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
    """How often one view has asked a registry."""

    count: int = 0


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Registered(msgspec.Struct):
    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")
    references: list[_Reference] | None = None


class _NotHad(Exception):  # noqa: N818 - an outcome
    """The sentence says why."""


class Schemas:
    """Those that registries have told."""

    def __init__(self, http: TenantHttp) -> None:
        self._http = http
        self._kept: OrderedDict[tuple[str, int, SchemaName], SchemaText] = OrderedDict()
        self._kept_bytes = 0
        self._refused: OrderedDict[tuple[str, int, SchemaName], tuple[str, int]] = OrderedDict()

    async def of(
        self, registry: Registry, names: Iterable[SchemaName], asks: Asks
    ) -> dict[SchemaName, SchemaText | str]:
        """Schemas by what they are known by, or why one is not had."""
        found: dict[SchemaName, SchemaText | str] = {}
        for name in names:
            key = (registry.instance_id, registry.revision, name)
            kept = self._kept.get(key)
            problem, until_ms = self._refused.get(key, ("", 0))
            if kept is not None:
                self._kept.move_to_end(key)
                found[name] = kept
            elif monotonic_ms() < until_ms:
                found[name] = problem
            elif asks.count >= ASKED_MAX:
                found[name] = _TOO_MANY
            else:
                asks.count += 1
                try:
                    found[name] = made = await self._asked(registry, name)
                    self._keep(key, made)
                except _NotHad as fault:
                    found[name] = str(fault)
                    self._refused[key] = (str(fault), monotonic_ms() + _REFUSED_FOR_MS)
                    while len(self._refused) > KEPT_IN_ALL_MAX:
                        self._refused.popitem(last=False)
        return found

    def _keep(self, key: tuple[str, int, SchemaName], made: SchemaText) -> None:
        self._kept[key] = made
        self._kept_bytes += _size(made)
        own = [one for one in self._kept if one[0] == key[0]]
        for one in own[: max(0, len(own) - KEPT_MAX)]:
            self._kept_bytes -= _size(self._kept.pop(one))
        while len(self._kept) > KEPT_IN_ALL_MAX or self._kept_bytes > _KEPT_BYTES_MAX:
            self._kept_bytes -= _size(self._kept.popitem(last=False)[1])

    async def _asked(self, registry: Registry, name: SchemaName) -> SchemaText:
        """Raises: _NotHad."""
        known_by = "ids" if isinstance(name, int) else "guids"
        registered = await self._get(registry, f"/schemas/{known_by}/{name}", f"schema {name}")
        try:
            kind = SchemaKind(registered.schema_type.lower())
        except ValueError:
            raise _NotHad(f"schema {name} is of a type that is not known here") from None
        references: dict[str, str] = {}
        await self._refer(registry, registered, references, [])
        return SchemaText(kind.value, registered.schema, tuple(references.items()))

    async def _refer(
        self, registry: Registry, registered: _Registered, found: dict[str, str], above: list[str]
    ) -> None:
        """What a schema refers to, each in front of who refers to it. Raises: _NotHad."""
        for one in registered.references or ():
            if one.name in found or one.name in above:
                continue
            if len(found) + len(above) >= REFERENCES_MAX:
                raise _NotHad(f"its schema refers to more than {REFERENCES_MAX} others")
            path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
            told = await self._get(registry, path, "a schema that its schema refers to")
            await self._refer(registry, told, found, [*above, one.name])
            found[one.name] = told.schema

    async def _get(self, registry: Registry, path: str, what: str) -> _Registered:
        """Raises: _NotHad."""
        headers = [("Accept", "application/vnd.schemaregistry.v1+json, application/json")]
        if registry.user or registry.password:
            said = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {said}"))
        sent = Sent("GET", registry.url.rstrip("/") + path, headers, answer_bytes_max=ANSWER_BYTES_MAX)
        try:
            answer = await self._http.call(registry.tenant, sent)
        except NoAnswer as error:
            raise _NotHad(f"the schema registry cannot be asked: {error}") from error
        if answer.status == 404:
            raise _NotHad(f"the schema registry has not {what}")
        if answer.status != 200:
            raise _NotHad(f"the schema registry answered {answer.status} for {what}")
        try:
            return msgspec.json.decode(answer.body, type=_Registered)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _NotHad(f"the schema registry's answer is no {what}") from error


def _size(schema: SchemaText) -> int:
    return len(schema.text) + sum(len(text) for _name, text in schema.references)
