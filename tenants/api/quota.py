"""Quota: what the master decided and why, as JSON and as a live stream."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from contracts.quota_view import QuotaOverview, QuotaView
from runtime.clock import epoch_ms
from tenants.api.answers import documented
from tenants.api.context import Asker, Found, Plane
from tenants.api.middleware import credential_caller
from tenants.api.problems import of_refusal
from tenants.api.quota_models import InstanceQuota, InstanceQuotas
from tenants.api.routers import api_router
from tenants.api.shapes import Schema
from tenants.console import Console
from tenants.rules.callers import OpenStreams
from tenants.rules.errors import Refused, Unavailable
from tenants.rules.model import Caller, Instance
from tenants.waiting import wait_until

router = api_router("/v1", "quota")
_PERIOD_MS: Final = 1_000
_RECHECK_EVERY: Final = 10
"""A stream looks this often, in messages, whether its caller may still see it."""
_HEADERS: Final = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
Seconds = Annotated[int, Query(ge=0, le=3600, description="seconds of history")]
_EVENT: Final[Schema] = {
    "type": "object",
    "description": "each event of the stream",
    "properties": {
        "event": {"enum": ["message", "problem"], "description": "a message, where it says nothing"},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "one JSON object"},
    },
    "required": ["data"],
}
StreamAnswer: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "one event a second; `event: problem` while the quota master does not answer",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}
FleetAnswer: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "one event each two seconds; `event: problem` while the quota master does not answer",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}


@router.get("/instances/{instance}/quota", responses=documented(InstanceQuota), response_class=Response)
async def instance_quota(plane: Plane, found: Found, seconds: Seconds = 0) -> Response:
    """One instance: rates, shares, allocations per broker with the reason, stored bytes, history."""
    view = await plane.quota.with_history(found.id, seconds)
    return _json(_named(view, found.tenant, found.name))


@router.get("/instances/{instance}/quota/stream", responses=StreamAnswer, response_class=StreamingResponse)
async def instance_quota_stream(
    request: Request, plane: Plane, caller: Asker, found: Found
) -> StreamingResponse:
    """The same live, without history, as server-sent events."""

    async def message() -> Any:
        return _named(await plane.quota.current(found.id), found.tenant, found.name)

    return _stream(request, plane, caller, found, message)


@router.get("/quota", responses=documented(InstanceQuotas), response_class=Response)
async def quota(plane: Plane) -> Response:
    """Every instance, without history."""
    return _json(await _everything(plane))


@router.get("/fleet/stream", responses=FleetAnswer, response_class=StreamingResponse)
async def fleet_stream(request: Request, plane: Plane, operator: Asker) -> StreamingResponse:
    """All instances live, as server-sent events: sums, and the first 25 by pressure, produce, consume,
    storage, skew and unused rate. First everything (`whole`), then each two seconds what changed."""
    return _LiveView(
        _fleet_events(plane, _still_allowed(request, plane, operator, None)), plane.streams, operator
    )


async def _everything(plane: Console) -> Any:
    overview: QuotaOverview = await plane.quota.overview()
    names = await asyncio.to_thread(plane.instances.names)
    shown = [_named(one, *names[one.instance_id]) for one in overview.instances if one.instance_id in names]
    return {**msgspec.to_builtins(overview), "instances": shown}


def _named(view: QuotaView, tenant: str, name: str) -> dict[str, Any]:
    return {**msgspec.to_builtins(view), "tenant": tenant, "name": name}


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _stream(
    request: Request,
    plane: Console,
    caller: Caller,
    instance: Instance | None,
    message: Callable[[], Awaitable[Any]],
) -> StreamingResponse:
    return _LiveView(
        _events(plane, message, _still_allowed(request, plane, caller, instance)), plane.streams, caller
    )


def _still_allowed(
    request: Request, plane: Console, caller: Caller, instance: Instance | None
) -> Callable[[], Awaitable[bool]]:
    async def still_allowed() -> bool:
        try:
            if await asyncio.to_thread(credential_caller, plane.accounts, request.scope) != caller:
                return False
            if instance is not None:
                await asyncio.to_thread(plane.instances.get, caller, instance.id)
        except Refused:
            return False
        return True

    return still_allowed


class _LiveView(StreamingResponse):
    """A stream that is counted while it is sent, to whoever looks; refused when there are too many."""

    def __init__(self, events: AsyncIterator[bytes], streams: OpenStreams, caller: Caller) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_HEADERS)
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._streams.one(self._caller))
            except Refused as refusal:
                await of_refusal(refusal, scope)(scope, receive, send)
                return
            await super().__call__(scope, receive, send)


async def _events(
    plane: Console, message: Callable[[], Awaitable[Any]], still_allowed: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    sent = 0
    yield b"retry: 2000\n\n"
    while not plane.closing.is_set():
        try:
            yield b"data: " + msgspec.json.encode(await message()) + b"\n\n"
        except Unavailable as error:
            detail = msgspec.json.encode({"status": 503, "detail": error.detail})
            yield b"event: problem\ndata: " + detail + b"\n\n"
        sent += 1
        if sent % _RECHECK_EVERY == 0 and not await still_allowed():
            return
        await _until_next_period(plane.closing)


async def _fleet_events(plane: Console, still_allowed: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
    number = sent = 0
    yield b"retry: 2000\n\n"
    async with plane.fleet.watched():
        closing = asyncio.ensure_future(plane.closing.wait())
        try:
            while True:
                news = asyncio.ensure_future(plane.fleet.after(number))
                await asyncio.wait({news, closing}, return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    news.cancel()
                    return
                frame = news.result()
                # Who missed a frame, because it reads slowly, is told everything.
                yield frame.changes if number and frame.number == number + 1 else frame.everything
                number = frame.number
                sent += 1
                if sent % _RECHECK_EVERY == 0 and not await still_allowed():
                    return
        finally:
            closing.cancel()


async def _until_next_period(closing: asyncio.Event) -> None:
    """All streams tick together, so that one question to the master serves them all."""
    await wait_until(closing, (_PERIOD_MS - epoch_ms() % _PERIOD_MS) / 1000)
