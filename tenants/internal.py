"""The control plane's routes on the internal HTTP server: the feed, gateway reports, metrics.

The caller puts the deployment's secret in front of them.
"""

import asyncio
import contextlib
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from contracts.access_orders import ACCESS_PATH, AccessOrder
from contracts.holdings import HoldingsAnswer, HoldingsReport
from contracts.specs import MESSAGE_VERSION, FeedRequest, GatewayReport
from runtime.clock import monotonic_ms
from tenants.api.problems import of_refusal, problem
from tenants.console import Console
from tenants.feed import UnknownVersion
from tenants.metrics import ConsoleCollector
from tenants.pipeline_metrics import PipelineCollector
from tenants.rules.errors import Refused
from tenants.store.engine import StoreFault

T = TypeVar("T")
BODY_BYTES_MAX: Final = 16 * 1024 * 1024


class _Malformed(Refused):
    pass


def create_internal_routes(console: Console) -> list[Route]:
    """Routes to be put beside the master's, in one Starlette application."""
    handlers = _Handlers(console)
    return [
        Route("/internal/v1/feed", handlers.feed, methods=["POST"]),
        Route("/internal/v1/gateway-reports", handlers.gateway_report, methods=["POST"]),
        Route("/internal/v1/holdings", handlers.holdings, methods=["POST"]),
        Route(ACCESS_PATH, handlers.access, methods=["POST"]),
        Route("/metrics", handlers.metrics, methods=["GET"]),
    ]


def collectors(console: Console) -> list[Collector]:
    """The control plane's metrics."""
    return [ConsoleCollector(console), PipelineCollector(console.pipeline_runs)]


class _Handlers:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._registry = CollectorRegistry()
        for collector in (*collectors(console), prometheus_client.REGISTRY):
            self._registry.register(collector)

    async def feed(self, request: Request) -> Response:
        """A long poll; given up when the follower hangs up, so that it no longer counts as live."""
        try:
            message = await _decode(request, FeedRequest)
            poll = asyncio.create_task(self._console.feed.poll(message))
            gone = asyncio.create_task(_hung_up(request))
            try:
                await asyncio.wait({poll, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not poll.done():
                    return Response(status_code=HTTPStatus.NO_CONTENT)
                return Response(msgspec.json.encode(poll.result()), media_type="application/json")
            finally:
                for task in (poll, gone):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Refused):
                        await task
        except (_Malformed, UnknownVersion) as error:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.detail, request.url.path)
        except StoreFault as error:
            return of_refusal(error, request.scope)

    async def gateway_report(self, request: Request) -> Response:
        """What a gateway worker counted."""
        try:
            report = await _decode(request, GatewayReport)
            if report.version != MESSAGE_VERSION:
                raise _Malformed(f"reports of version {report.version} are not understood here")
        except _Malformed as error:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.detail, request.url.path)
        now_ms = monotonic_ms()
        self._console.gateways.receive(report, now_ms)
        self._console.client_reports.receive(report, now_ms)
        return Response(b"{}", media_type="application/json")

    async def holdings(self, request: Request) -> Response:
        """What a broker or gateway holds and does not serve."""
        try:
            report = await _decode(request, HoldingsReport)
            if report.version != MESSAGE_VERSION:
                raise _Malformed(f"reports of version {report.version} are not understood here")
        except _Malformed as error:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.detail, request.url.path)
        wanted = self._console.found.receive(report, monotonic_ms())
        return Response(msgspec.json.encode(HoldingsAnswer(wanted=wanted)), media_type="application/json")

    async def access(self, request: Request) -> Response:
        """What a user of an instance changes of it by Kafka's own tools."""
        try:
            order = await _decode(request, AccessOrder)
            if order.version != MESSAGE_VERSION:
                raise _Malformed(f"orders of version {order.version} are not understood here")
            answer = await asyncio.to_thread(self._console.user_orders.carry_out, order)
        except _Malformed as error:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.detail, request.url.path)
        except StoreFault as error:
            return of_refusal(error, request.scope)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """Prometheus metrics of this process."""
        text = await asyncio.to_thread(prometheus_client.generate_latest, self._registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)


async def _decode(request: Request, message: type[T]) -> T:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _Malformed(f"the message has more than {BODY_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(body, type=message)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _Malformed(f"the message is not understood: {error}") from error


async def _hung_up(request: Request) -> None:
    """Returns when the peer is gone; its request has been read whole."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
