"""ApiVersions 0-3: the gateway's table cut down to what the instance has and the backend serves.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the list (KIP-511), so it is
looked at before anything is decoded. The list differs per listener: each stands for one broker.
Deliberately not done: feature flags; there are none of ours.
"""

import asyncio
import re
import struct
from typing import Any, Final

from kio.schema.errors import ErrorCode

from gateway import answers
from gateway.apis import APIS, Mode
from gateway.backend import VersionsKey
from gateway.call import Answer, Call, Later
from gateway.causes import DisconnectCause
from gateway.dial import RETRY_S
from gateway.mapped import answer_locally, reply_locally
from gateway.ordering import Exchange
from gateway.stops import ConnectionStop
from runtime.kafka_client import KafkaUnavailable
from wire.api_table import ApiKey, VersionRange
from wire.codec import decode, encode, parse_request_header, request_class
from wire.framing import Buffer

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_HEAD: Final = struct.Struct(">ii")
_NAMED_SOFTWARE: Final = 3
"""From this version on clients say what they are."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def offered(backend: dict[int, VersionRange], *, legacy_clients: bool) -> list[dict[str, int]]:
    """The list of a response: our rows, and of those that go up only what the backend serves too."""
    offers = []
    for key, row in APIS.items():
        lowest, highest = row.versions.advertised_min, row.versions.highest
        least = row.versions.lowest
        if legacy_clients and row.legacy_lowest is not None:
            lowest = least = row.legacy_lowest
        if row.mode is not Mode.LOCAL:
            theirs = backend.get(key)
            if theirs is None or theirs.highest < least or theirs.lowest > highest:
                continue
            highest = min(highest, theirs.highest)
            lowest = lowest if theirs.lowest <= least else theirs.lowest
        offers.append({"api_key": key, "min_version": lowest, "max_version": highest})
    return offers


def _offered(call: Call, known: dict[int, VersionRange]) -> list[dict[str, int]]:
    return offered(known, legacy_clients=call.spec.legacy_clients)


def _key(call: Call) -> VersionsKey:
    """What the answer depends on."""
    return call.conn.listener.node_id, call.api_version, call.spec.legacy_clients


def take_frame(call: Call, frame: memoryview, out: list[Buffer]) -> bool:
    """Answer a version we do not know, and what was answered before in the same words."""
    del out
    if not APIS[_API_VERSIONS].versions.serves(call.api_version):
        known = call.backend.known_versions(call.conn.listener.node_id)
        if known is None:
            call.conn.wait_for(_refused_later(call))
        else:
            _refuse(call, known)
        return True
    body = call.backend.encoded_versions.get(_key(call))
    if body is None or (call.api_version >= _NAMED_SOFTWARE and _request_fault(call, frame)):
        return False
    reply_locally(call.conn, call.exchange, _HEAD.pack(4 + len(body), call.exchange.correlation_id) + body)
    return True


def _refuse(call: Call, known: dict[int, VersionRange]) -> None:
    """The list is whole: franz-go goes by it and does not ask again."""
    response = answers.response(
        _API_VERSIONS, 0, error_code=ErrorCode.unsupported_version, api_keys=_offered(call, known)
    )
    asked = call.exchange
    answered = Exchange(_API_VERSIONS, 0, asked.correlation_id, asked.began_ns, asked.trace)
    answer_locally(call.conn, answered, response)


async def _refused_later(call: Call) -> None:
    _refuse(call, await _asked(call))


def _request_fault(call: Call, frame: memoryview) -> bool:
    """Whether the request is not one that the remembered body answers."""
    header = parse_request_header(frame[4:], True)
    request = decode(request_class(_API_VERSIONS, call.api_version), bytes(frame[4:]), header.body_at)
    return not _names_software(request)


def _names_software(request: Any) -> bool:
    """Kafka's rule for the names that clients give themselves (KIP-511)."""
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.match(name) for name in names)


def on_request(call: Call, request: Any) -> Answer | Later:
    """Answer at once when the backend has been asked before, else after asking it."""
    if call.api_version >= _NAMED_SOFTWARE and not _names_software(request):
        return call.answer(error_code=ErrorCode.invalid_request)
    known = call.backend.known_versions(call.conn.listener.node_id)
    return _later(call) if known is None else _answered(call, known)


def _answered(call: Call, known: dict[int, VersionRange]) -> Answer:
    answer = call.answer(api_keys=_offered(call, known))
    call.backend.encoded_versions[_key(call)] = encode(answer.response)
    return answer


async def _later(call: Call) -> Answer:
    return _answered(call, await _asked(call))


async def _asked(call: Call) -> dict[int, VersionRange]:
    """What the backend serves; a broker that restarts is waited for. Raises: ConnectionStop."""
    worker = call.conn.worker
    give_up_ms = worker.now_ms + worker.config.timeouts.connect_ms
    while True:
        try:
            return await call.backend.versions(call.conn.listener.node_id)
        except KafkaUnavailable as error:
            if worker.now_ms >= give_up_ms:
                raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error
        await asyncio.sleep(RETRY_S)
