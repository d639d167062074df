"""Webhooks: who is told of alarms, and how that went (docs/alarms.md)."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import Path, Response, status
from pydantic import Field

from contracts.shapes import URL_SHAPE
from tenants.api import views
from tenants.api.context import Asker, Plane, Tenant, at, home_or_all
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import Name
from tenants.rules.model import Caller
from tenants.rules.webhooks import URL_CHARACTERS_MAX, DeliveryState
from tenants.store.webhooks import OPERATORS, Delivery, Webhook

router = api_router("/v1/webhooks", "webhooks")
WebhookId = Annotated[
    str, Path(max_length=16, description="the id of the webhook", examples=["w0a1b2c3d4e5f"])
]
_ENABLED = "whether it is told; else what happens is never told to it, and what waits already waits on"
_URL = "where messages are sent by POST; it must be in the public internet, unless operators allow its range"


class WebhookCreate(RequestModel):
    """POST /v1/webhooks."""

    name: Name = Field(description="letters, digits, '.', '_' and '-'", examples=["pager"])
    url: str = Field(
        max_length=URL_CHARACTERS_MAX,
        description=_URL,
        examples=["https://example.com/hook"],
        json_schema_extra={"pattern": URL_SHAPE},
    )


class WebhookChange(RequestModel):
    """PATCH /v1/webhooks/{webhook}."""

    enabled: bool = Field(description=_ENABLED, examples=[False])


class WebhookView(ViewModel):
    """A webhook. Of its secret nothing is told."""

    id: str
    name: str = Field(description="of the webhook", examples=["pager"])
    tenant: str | None = Field(description="whose alarms it is told of; null: everybody's and operators' own")
    url: str = Field(description=_URL, examples=["https://example.com/hook"])
    enabled: bool = Field(description=_ENABLED, examples=[True])
    created_at: datetime
    created_by: str = Field(description="who made it", examples=["session:ann"])


class WebhookCreated(WebhookView):
    """A new webhook with its secret: the only time that it is shown."""

    signing_secret: str = Field(
        description="signs each message, as Standard Webhooks say",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )


class WebhookList(ViewModel):
    """GET /v1/webhooks, by name."""

    items: list[WebhookView]


class DeliveryView(ViewModel):
    """A message, and how its sending went."""

    id: str = Field(
        description="`webhook-id` of the message, the same at each attempt", examples=["msg_0a1b2c"]
    )
    event: str = Field(description="what it tells", examples=["alarm.raised"])
    state: DeliveryState = Field(
        description="`pending`: it is tried, or tried again; `failed`: it was given up",
        examples=["delivered"],
    )
    attempts: int = Field(description="how often it was tried", examples=[1])
    created_at: datetime
    tried_at: datetime | None = Field(description="when it was tried last; null: not yet")
    next_at: datetime | None = Field(description="when it is tried next; null: no more")
    http_status: int | None = Field(description="the sink's answer; null: there was none", examples=[204])
    reason: str = Field(description="why the last attempt failed; empty: it did not", examples=[""])
    body: str = Field(description="what is sent", examples=['{"type": "alarm.raised"}'])


class DeliveryList(ViewModel):
    """GET /v1/webhooks/{webhook}/deliveries, newest first."""

    items: list[DeliveryView]


@router.get("")
async def webhooks(plane: Plane, caller: Asker, tenant: Tenant = None) -> WebhookList:
    """A tenant's webhooks. Operators: with `?tenant=*` their own, which are told of everybody's alarms."""
    home = await home_or_all(plane, caller, tenant)
    found = await asyncio.to_thread(plane.webhooks.of_tenant, OPERATORS if home is None else home)
    return WebhookList(items=[_view(one, caller) for one in found])


@router.post("", status_code=status.HTTP_201_CREATED)
async def create_webhook(
    plane: Plane, caller: Asker, body: WebhookCreate, tenant: Tenant = None
) -> WebhookCreated:
    """Have somebody told of alarms. The secret that signs is in this answer and nowhere else."""
    home = await home_or_all(plane, caller, tenant)
    scope = OPERATORS if home is None else home
    made = await asyncio.to_thread(plane.webhooks.create, caller, scope, body.name, body.url)
    return WebhookCreated(**_view(made.webhook, caller).model_dump(), signing_secret=made.secret)


@router.patch("/{webhook}")
async def change_webhook(plane: Plane, caller: Asker, webhook: WebhookId, body: WebhookChange) -> WebhookView:
    """Disable it, or enable it again. Its log and its secret stay."""
    changed = await asyncio.to_thread(plane.webhooks.switch, caller, webhook, enabled=body.enabled)
    return _view(changed, caller)


@router.delete("/{webhook}", status_code=status.HTTP_204_NO_CONTENT)
async def delete_webhook(plane: Plane, caller: Asker, webhook: WebhookId) -> Response:
    """Have it told no more; what waits is not sent."""
    await asyncio.to_thread(plane.webhooks.delete, caller, webhook)
    return Response(status_code=status.HTTP_204_NO_CONTENT)


@router.post("/{webhook}/test", status_code=status.HTTP_202_ACCEPTED)
async def test_webhook(plane: Plane, caller: Asker, webhook: WebhookId) -> DeliveryView:
    """Send a message that says it is a test, signed like any other; the log tells how it went."""
    return delivery_view(await asyncio.to_thread(plane.webhooks.test, caller, webhook))


@router.get("/{webhook}/deliveries")
async def webhook_deliveries(plane: Plane, caller: Asker, webhook: WebhookId) -> DeliveryList:
    """What waits, and the last that was sent or given up."""
    found = await asyncio.to_thread(plane.webhooks.log, caller, webhook)
    return DeliveryList(items=[delivery_view(one) for one in found])


def _view(one: Webhook, caller: Caller) -> WebhookView:
    return WebhookView(
        id=one.id,
        name=one.name,
        tenant=one.tenant or None,
        url=one.url,
        enabled=one.enabled,
        created_at=at(one.created_at_ms),
        created_by=views.actor_for(caller, one.created_by),
    )


def delivery_view(one: Delivery) -> DeliveryView:
    """Of a webhook or an e-mail address."""
    is_pending = one.state is DeliveryState.PENDING
    return DeliveryView(
        id=one.id,
        event=one.event,
        state=one.state,
        attempts=one.attempts,
        created_at=at(one.created_at_ms),
        tried_at=None if one.tried_at_ms is None else at(one.tried_at_ms),
        next_at=at(one.next_at_ms) if is_pending else None,
        http_status=one.status,
        reason=one.error,
        body=one.body,
    )
