"""By whose tokens clients of an instance log in: SASL OAUTHBEARER (docs/access.md)."""

import asyncio
import json
from typing import Annotated, Final

import msgspec
from pydantic import Field

from contracts.oauth import SKEW_MS_MAX, OauthSpec
from tenants.api.context import Found, Plane
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import Schema, of
from tenants.api.versions import Changing, Versioned
from tenants.console import Console
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import Fault
from tenants.rules.model import Instance
from tenants.rules.oauth import (
    LISTED_MAX,
    PRIVATE,
    SCOPE_SHAPE,
    TEXT_CHARS_MAX,
    TEXT_SHAPE,
    KeysFault,
    kept_keys,
)
from tenants.usecases.instances import Instances

router = api_router("/v1/instances/{instance}/oauth", "users")
_ISSUER = "who makes the tokens: their claim `iss`, character by character"
_AUDIENCE = "for whom they have to be: one of their claim `aud`"
_CLAIM = "the claim that says who a client is, in ACLs `User:` and its value"
_SCOPE = "one that tokens have to have in `scope` or `scp`; empty: none"
_SKEW = "how far the provider's clock may be from that of the gateways"
_ISSUERS = ["https://id.example.com/"]
_KEY = {"kty": "EC", "kid": "2026-11", "crv": "P-256", "x": "MKBC...", "y": "4Etl..."}


_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX, json_schema_extra={"pattern": TEXT_SHAPE})]
_KEYS: Final[Schema] = {
    "type": "array",
    "items": {"type": "object", "propertyNames": {"not": {"enum": list(PRIVATE)}}},
    "maxItems": LISTED_MAX,
}


class OauthSet(RequestModel):
    """PUT .../oauth."""

    issuer: _Text = Field(description=_ISSUER, examples=_ISSUERS)
    audience: _Text = Field(description=_AUDIENCE, examples=["kafka"])
    jwks: dict[str, object] = Field(
        description="the provider's public keys, a JWK set (RFC 7517): of RSA, P-256, P-384 and P-521",
        examples=[{"keys": [_KEY]}],
        json_schema_extra=of("keys", keys=_KEYS),
    )
    principal_claim: _Text = Field(default="sub", description=_CLAIM, examples=["sub"])
    scope: str = Field(
        default="",
        max_length=TEXT_CHARS_MAX,
        description=_SCOPE,
        examples=[""],
        json_schema_extra={"pattern": SCOPE_SHAPE},
    )
    clock_skew_ms: int = Field(default=30_000, ge=0, le=SKEW_MS_MAX, description=_SKEW, examples=[30_000])


class OauthView(ViewModel):
    """By whose tokens clients log in; all null: by nobody's."""

    issuer: str | None = Field(description=_ISSUER, examples=_ISSUERS)
    audience: str | None = Field(description=_AUDIENCE, examples=["kafka"])
    principal_claim: str | None = Field(description=_CLAIM, examples=["sub"])
    scope: str | None = Field(description=_SCOPE, examples=[""])
    clock_skew_ms: int | None = Field(description=_SKEW, examples=[30_000])
    keys: list[str] = Field(
        description="the names (`kid`) of the keys that tokens are checked by", examples=[["2026-11"]]
    )
    applied: bool


@router.get("")
async def oauth(plane: Plane, found: Found, version: Versioned) -> OauthView:
    """By whose tokens clients of an instance log in."""
    version.tell(found)
    return _view(plane, found)


@router.put("")
async def set_oauth(plane: Plane, change: Changing, body: OauthSet) -> OauthView:
    """Let clients log in by tokens of a provider, where the way they come in asks for a login. Connections
    whose token would not be taken any more are cut within a second."""
    try:
        keys = await asyncio.to_thread(kept_keys, body.jwks)
    except KeysFault as fault:
        raise Invalid([Fault("jwks", str(fault), fault.is_said)]) from fault
    said = OauthSpec(
        issuer=body.issuer,
        audience=body.audience,
        keys=keys,
        principal_claim=body.principal_claim,
        scope=body.scope,
        clock_skew_ms=body.clock_skew_ms,
    )
    return _view(plane, await change.make(Instances.set_oauth, said))


@router.delete("", status_code=204)
async def delete_oauth(change: Changing) -> None:
    """Take tokens no more. Connections that came with one are cut within a second."""
    await change.make(Instances.set_oauth, None)


def _view(plane: Console, instance: Instance) -> OauthView:
    names = ("issuer", "audience", "principal_claim", "scope", "clock_skew_ms")
    said = {} if instance.oauth is None else msgspec.to_builtins(instance.oauth)
    listed = json.loads(said["keys"])["keys"] if said else []
    return OauthView(
        **{name: said.get(name) for name in names},
        keys=[each.get("kid", "") for each in listed],
        applied=plane.feed.applied_everywhere(instance.revision),
    )
