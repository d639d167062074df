"""The master's routes on the internal HTTP server. The caller puts the deployment secret in front of them."""

from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from contracts.quota import TrafficReport
from contracts.quota_view import PolicySetting
from contracts.tree import TreeUnavailable
from master.node import MasterNode, NotElectedError
from master.quota.flows import Refusal, ReportRefusedError
from master.quota.history import COARSE_SPAN_MS

T = TypeVar("T")
BODY_BYTES_MAX = 16 * 1024 * 1024
SECONDS_MAX = COARSE_SPAN_MS // 1000


class _BadRequestError(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def create_app(node: MasterNode) -> Starlette:
    """The routes of one master, to be mounted at the root of the internal server.

    While another process is elected every route answers 503 and names it.
    """
    routes = _Routes(node)
    return Starlette(
        routes=[
            Route("/internal/v1/reports", routes.report, methods=["POST"]),
            Route("/internal/v1/allocations", routes.allocations, methods=["GET"]),
            Route("/internal/v1/quota", routes.overview, methods=["GET"]),
            Route("/internal/v1/fleet", routes.fleet, methods=["GET"]),
            Route("/internal/v1/instances/{instance_id}/quota", routes.instance, methods=["GET"]),
            Route("/internal/v1/policy", routes.get_policy, methods=["GET"]),
            Route("/internal/v1/policy", routes.put_policy, methods=["PUT"]),
            Route("/internal/v1/points/{point}", routes.forget_point, methods=["DELETE"]),
        ],
        exception_handlers={
            _BadRequestError: _on_bad_request,
            NotElectedError: _on_not_elected,
            TreeUnavailable: _on_tree_unavailable,
        },
    )


class _Routes:
    def __init__(self, node: MasterNode) -> None:
        self._node = node

    async def report(self, request: Request) -> Response:
        """POST a TrafficReport; answers the point's allocations."""
        try:
            report = await _decode(request, TrafficReport)
        except _BadRequestError as error:
            self._node.service.count_refusal(Refusal.MALFORMED, error.detail)
            raise
        try:
            return _json(self._node.service.receive(report))
        except ReportRefusedError as refused:
            raise _BadRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, refused.detail) from refused

    async def allocations(self, request: Request) -> Response:
        """GET the leases a point was given last: `?point=NAME`."""
        point = request.query_params.get("point", "")
        if not point:
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, "say which point: ?point=NAME")
        return _json(self._node.service.allocations(point))

    async def overview(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """GET every instance's quota, without history."""
        return _json(self._node.service.overview())

    async def fleet(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """GET a line of every instance."""
        return _json(self._node.service.fleet())

    async def instance(self, request: Request) -> Response:
        """GET one instance's quota: `?seconds=N` of history, 0 to 3600."""
        instance_id = request.path_params["instance_id"]
        view = self._node.service.view(instance_id, _seconds(request))
        if view is None:
            raise _BadRequestError(HTTPStatus.NOT_FOUND, f"there is no instance {instance_id}")
        return _json(view)

    async def get_policy(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """GET the policy in force."""
        return _json(PolicySetting(policy=self._node.service.policy))

    async def put_policy(self, request: Request) -> Response:
        """PUT the policy for all instances."""
        setting = await _decode(request, PolicySetting)
        try:
            await self._node.set_policy(setting.policy)
        except ValueError as error:
            raise _BadRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return _json(setting)

    async def forget_point(self, request: Request) -> Response:
        """DELETE a broker that is gone for good: its shares are no longer reserved."""
        point = request.path_params["point"]
        if not self._node.service.forget_point(point):
            raise _BadRequestError(HTTPStatus.NOT_FOUND, f"there is no point {point}")
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _seconds(request: Request) -> int:
    text = request.query_params.get("seconds", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= SECONDS_MAX):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"seconds must be a number from 0 to {SECONDS_MAX}")
    return int(text)


async def _decode(request: Request, message: type[T]) -> T:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _BadRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {BODY_BYTES_MAX} bytes"
            )
    try:
        return msgspec.json.decode(body, type=message)
    except msgspec.ValidationError as error:
        raise _BadRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    except msgspec.DecodeError as error:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type="application/json")


async def _on_bad_request(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, _BadRequestError)
    return _problem(error.status, error.detail)


async def _on_not_elected(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, NotElectedError)
    return _problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), master=error.url)


async def _on_tree_unavailable(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return _problem(HTTPStatus.SERVICE_UNAVAILABLE, f"ZooKeeper does not answer: {error}")


def _problem(status: int, detail: str, **more: object) -> Response:
    problem = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **more,
    }
    return Response(msgspec.json.encode(problem), status_code=status, media_type="application/problem+json")
