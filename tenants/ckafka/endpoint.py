"""The endpoint as ASGI: `POST /` on the console's port, from a request's head to its answer.

Its path is `/` because that is what Tencent's clients sign and send, whatever their endpoint's host.
"""

import asyncio
import hashlib
import uuid
from typing import Any, Final

import msgspec
from prometheus_client import Counter
from sqlalchemy.exc import OperationalError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.api.middleware import RATE_LIMITED, client_address
from tenants.ckafka.action import Action, Call
from tenants.ckafka.actions import ACTIONS, UNSUPPORTED, VERSION
from tenants.ckafka.request import signature
from tenants.ckafka.request.errors import ApiError, Code, of_refusal, unsupported
from tenants.ckafka.request.heads import Head, head_of
from tenants.ckafka.request.params import check_names, converted, parse
from tenants.ckafka.request.rates import bucket_of
from tenants.ckafka.request.replays import Replays
from tenants.ckafka.request.signature import Authorization, Signable
from tenants.console import Console
from tenants.rules.errors import Refused
from tenants.rules.model import Caller
from tenants.rules.permissions import Role, refusal
from tenants.usecases.access_keys import Pair

_log = get_logger(__name__)
BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a request to the CKafka endpoint: it has to be read before its signature can be checked."""
_SERVICE: Final = "ckafka"
REQUESTS: Final = Counter("portico_ckafka_requests_total", "Answered requests", ["action", "code"])


class CkafkaEndpoint:
    """Pure ASGI middleware: answers `POST /`, and leaves everything else to the console."""

    def __init__(self, app: ASGIApp, plane: Console) -> None:
        self._app = app
        self._plane = plane
        self._replays = Replays()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Every answer has status 200: clients read what is wrong from the body, as at Tencent Cloud."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        request_id = str(uuid.uuid4())
        action, code = "", ""
        try:
            head = head_of(scope)
            action = head.action
            answer: dict[str, Any] = {"Result": await self._result(head, scope, receive)}
        except ClientDisconnect:
            return
        except ApiError as error:
            answer, code = _error(error), error.code
        except Exception as error:  # noqa: BLE001 - nothing behind this would answer in the client's words
            _log.error("request failed", action=action, request_id=request_id, exc_info=error)
            failed = ApiError(Code.INTERNAL_ERROR, "something went wrong here; it has been logged")
            answer, code = _error(failed), failed.code
        known = action if action in ACTIONS or action in UNSUPPORTED else "other"
        REQUESTS.labels(known, code or "ok").inc()
        await _answer(send, {"Response": {**answer, "RequestId": request_id}})

    async def _result(self, head: Head, scope: Scope, receive: Receive) -> Any:
        try:
            now_ms = epoch_ms()
            pair = await self._pair(head, now_ms)
            body = await _body(receive)
            _check_signature(head, body, pair.secret_key)
            action = _action_of(head, self._plane.config.region)
            caller = _caller(pair, client_address(scope))
            await asyncio.to_thread(self._charge, caller, action, pair)
            self._admit(caller, action, head.authorization, now_ms)
            given = parse(body)
            check_names(given, action.params, action.ignored, action.refused)
            params = converted(given, action.params)
            with self._plane.requests.one(caller):
                return await action.handle(Call(self._plane, caller, params))
        except Refused as refusal:
            raise of_refusal(refusal) from refusal
        except OperationalError as error:
            _log.error("the console's database does not work", action=head.action, error=str(error))
            sentence = "the console's database does not work now, instances do: try again later"
            raise ApiError(Code.SERVICE_UNAVAILABLE, sentence) from error

    async def _pair(self, head: Head, now_ms: int) -> Pair:
        said = head.authorization
        if abs(now_ms // 1000 - head.timestamp_s) > signature.SKEW_MAX_S:
            raise ApiError(
                Code.SIGNATURE_EXPIRE,
                f"the request is of {head.timestamp_s}, here it is {now_ms // 1000}: set your clock",
            )
        if said.service != _SERVICE:
            raise ApiError(Code.SIGNATURE_FAILURE, f"the credential's service must be '{_SERVICE}'")
        if said.date != signature.date_of(head.timestamp_s):
            raise ApiError(Code.SIGNATURE_FAILURE, "the credential's date is not that of X-TC-Timestamp")
        pair = await asyncio.to_thread(self._plane.access_keys.find, said.secret_id)
        if pair is None:
            raise ApiError(Code.SECRET_ID_NOT_FOUND, "the SecretId is not known: check it, or make a new key")
        return pair

    def _charge(self, caller: Caller, action: Action, pair: Pair) -> None:
        """Blocks: both may ask others."""
        verdict = self._plane.rates.take(caller, bucket_of(caller.tenant, action.name))
        if not verdict.is_admitted:
            RATE_LIMITED.labels(verdict.quota.name).inc()
            calls = f"{verdict.quota.requests_max} in {verdict.quota.window_s} s"
            raise ApiError(
                Code.REQUEST_LIMIT_EXCEEDED,
                f"too many calls of {action.name}, or in all ({calls}): slow down",
            )
        self._plane.access_keys.used(pair.key)

    def _admit(self, caller: Caller, action: Action, said: Authorization, now_ms: int) -> None:
        for permission in action.permissions:
            if not caller.may(permission):
                raise ApiError(Code.UNAUTHORIZED_OPERATION, refusal(caller.role, permission))
        signed = said.signature
        if not self._replays.admits(caller.tenant, signed, action.name, now_ms, changes=action.changes):
            raise ApiError(Code.SIGNATURE_EXPIRE, "this signature has been used before: sign the change anew")


def _check_signature(head: Head, body: bytes, secret_key: str) -> None:
    payload = body if head.signs_payload else signature.UNSIGNED_PAYLOAD.encode()
    request = Signable(
        head.method, head.query, head.headers, hashlib.sha256(payload).hexdigest(), head.timestamp_s
    )
    if not signature.is_signed_by(request, head.authorization, secret_key):
        raise ApiError(Code.SIGNATURE_FAILURE, "the signature is not the one of this request and key")


def _action_of(head: Head, region: str) -> Action:
    if head.version != VERSION:
        raise ApiError(Code.NO_SUCH_VERSION, f"there is no version '{head.version[:40]}', but {VERSION}")
    if head.region not in ("", region):
        raise ApiError(Code.UNSUPPORTED_REGION, f"there is no region '{head.region[:40]}', but {region}")
    if head.action in UNSUPPORTED:
        raise unsupported(f"{head.action} is not supported by this service: {UNSUPPORTED[head.action]}")
    action = ACTIONS.get(head.action)
    if action is None:
        raise ApiError(Code.INVALID_ACTION, f"there is no action '{head.action[:80]}'")
    return action


def _caller(pair: Pair, address: str) -> Caller:
    key = pair.key
    return Caller("access-key", key.name, key.tenant, Role(key.role), address, key.secret_id)


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise ApiError(
                Code.REQUEST_SIZE_LIMIT_EXCEEDED, f"the body may have at most {BODY_BYTES_MAX} bytes"
            )
        if not message.get("more_body", False):
            return bytes(body)


def _error(error: ApiError) -> dict[str, Any]:
    return {"Error": {"Code": error.code, "Message": error.message}}


async def _answer(send: Send, answer: dict[str, Any]) -> None:
    body = msgspec.json.encode(answer)
    # SDKs look for errors in answers of exactly this type.
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
