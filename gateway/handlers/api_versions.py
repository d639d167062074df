"""ApiVersions 0-3: the gateway's table cut down to what the backend serves.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the list (KIP-511), so it is
looked at before anything is decoded. The list differs per listener: each stands for one broker.
Deliberately not done: feature flags; there are none of ours.
"""

import re
import struct
from typing import Any, Final

from kio.schema.errors import ErrorCode

from gateway import answers
from gateway.apis import APIS, Mode
from gateway.call import Answer, Call, Later
from gateway.causes import DisconnectCause
from gateway.mapped import answer_locally
from gateway.ordering import Exchange
from gateway.stops import ConnectionStop
from runtime.kafka_client import KafkaUnavailable
from wire.api_table import ApiKey, VersionRange
from wire.framing import Buffer

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_I16: Final = struct.Struct(">h")
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def offered(backend: dict[int, VersionRange]) -> list[dict[str, int]]:
    """The list of a response: our rows, and of those that go up only what the backend serves too."""
    offers = []
    for key, row in APIS.items():
        lowest, highest = row.versions.advertised_min, row.versions.highest
        if row.mode is not Mode.LOCAL:
            theirs = backend.get(key)
            if theirs is None or theirs.highest < row.versions.lowest or theirs.lowest > highest:
                continue
            highest = min(highest, theirs.highest)
            lowest = lowest if theirs.lowest <= row.versions.lowest else theirs.lowest
        offers.append({"api_key": key, "min_version": lowest, "max_version": highest})
    return offers


def take_frame(call: Call, frame: memoryview, out: list[Buffer]) -> bool:
    """Answer a version we do not know; True when that was the case."""
    del frame, out
    if APIS[_API_VERSIONS].versions.serves(call.api_version):
        return False
    known = call.backend.known_versions(call.conn.listener.node_id) or {}
    response = answers.response(
        _API_VERSIONS, 0, error_code=ErrorCode.unsupported_version, api_keys=offered(known)
    )
    exchange = Exchange(_API_VERSIONS, 0, call.exchange.correlation_id)
    answer_locally(call.conn, exchange, response)
    return True


def on_request(call: Call, request: Any) -> Answer | Later:
    """Answer at once when the backend has been asked before, else after asking it."""
    if call.api_version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return call.answer(error_code=ErrorCode.invalid_request)
    known = call.backend.known_versions(call.conn.listener.node_id)
    return _later(call) if known is None else call.answer(api_keys=offered(known))


async def _later(call: Call) -> Answer:
    try:
        known = await call.backend.versions(call.conn.listener.node_id)
    except KafkaUnavailable as error:
        raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error
    return call.answer(api_keys=offered(known))
