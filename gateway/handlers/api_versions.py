"""ApiVersions 0-4: the gateway's table cut down to what the instance has and the backend serves.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the list (KIP-511), so it is
looked at before anything is decoded. The list differs per listener: each stands for one broker.
Of features, group.version and transaction.version are told as the backend has them; clients would make use of
its others by versions that are not offered here.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from gateway.apis import APIS, Mode
from gateway.rules.client_metrics import cut
from gateway.session.call import Answer, Call, Encoded, Later
from gateway.session.deps import AsksVersions
from gateway.session.surroundings import VersionsKey
from wire.api_table import GROUP_VERSION, TRANSACTION_VERSION, ApiKey, Served, VersionRange
from wire.codec import decode, encode, parse_request_header, request_class
from wire.messages import ApiVersionsRequest

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_TELEMETRY: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
_FEATURES_FROM: Final = 3
_ALL_FEATURES_FROM: Final = 4
_FEATURES: Final = {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
"""Each with the highest level that is known here."""
_NAMED_SOFTWARE: Final = 3
"""From this version on clients say what they are."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def offered(
    backend: Mapping[int, VersionRange], *, legacy_clients: bool, client_metrics: bool = True
) -> list[dict[str, int]]:
    """The list of a response: our rows, and of those that go up only what the backend serves too."""
    offers = []
    for key, row in APIS.items():
        if key in _TELEMETRY and not client_metrics:
            continue
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


def features(served: Served, api_version: int) -> dict[str, object]:
    """The features of a response; what can be off in Kafka is told as supported from version 4 on."""
    told = {name: min(most, served.features.get(name, 0)) for name, most in _FEATURES.items()}
    levels = {name: level for name, level in told.items() if level}
    if api_version < _FEATURES_FROM or not levels:
        return {}
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in levels.items()
    ]
    supported = [{"name": name, "min_version": 0, "max_version": level} for name, level in levels.items()]
    return {
        "finalized_features_epoch": 0,
        "finalized_features": finalized,
        "supported_features": supported if api_version >= _ALL_FEATURES_FROM else [],
    }


def _offered(call: Call, known: Served) -> list[dict[str, int]]:
    spec = call.spec
    offers = offered(known.apis, legacy_clients=spec.legacy_clients, client_metrics=spec.client_metrics)
    if spec.epochs_anew:  # who compares epochs of another cluster would take its records for lost
        offers = [one for one in offers if one["api_key"] != ApiKey.OFFSET_FOR_LEADER_EPOCH]
    return offers


def _key(call: Call) -> VersionsKey:
    """What the answer depends on."""
    spec = call.spec
    return call.node_id, call.api_version, spec.legacy_clients, spec.client_metrics, spec.epochs_anew


def take_frame(call: Call, frame: memoryview) -> Answer | Encoded | Later | None:
    """Answer a version we do not know, and what was answered before in the same words."""
    if not APIS[_API_VERSIONS].versions.serves(call.api_version):
        call.exchange.api_version = 0  # of the answer
        known = call.cluster.known_versions(call.node_id)
        return Later(partial(_refused_later, call)) if known is None else _refused(call, known)
    call.conversation.client_name = cut(parse_request_header(frame[4:], False).client_id)
    body = call.cluster.encoded_versions.get(_key(call))
    if body is None or (call.api_version >= _NAMED_SOFTWARE and _request_fault(call, frame)):
        return None
    return Encoded(body)


def _refused(call: Call, known: Served) -> Answer:
    """The list is whole: franz-go goes by it and does not ask again."""
    return call.answer(error_code=ErrorCode.unsupported_version, api_keys=_offered(call, known))


async def _refused_later(call: Call, deps: AsksVersions) -> Answer:
    return _refused(call, await deps.versions())


def _request_fault(call: Call, frame: memoryview) -> bool:
    """Whether the request is not one that the remembered body answers."""
    header = parse_request_header(frame[4:], True)
    request = decode(request_class(_API_VERSIONS, call.api_version), bytes(frame[4:]), header.body_at)
    return not _names_software(call, request)


def _names_software(call: Call, request: ApiVersionsRequest) -> bool:
    """Kafka's rule for the names that clients give themselves (KIP-511); right ones are remembered."""
    names = (request.client_software_name, request.client_software_version)
    if not all(_SOFTWARE.match(name) for name in names):
        return False
    call.conversation.software = (cut(names[0]), cut(names[1]))
    return True


def on_request(call: Call, request: ApiVersionsRequest) -> Answer | Later:
    """Answer at once when the backend has been asked before, else after asking it."""
    if call.api_version >= _NAMED_SOFTWARE and not _names_software(call, request):
        return call.answer(error_code=ErrorCode.invalid_request)
    known = call.cluster.known_versions(call.node_id)
    return Later(partial(_later, call)) if known is None else _answered(call, known)


def _answered(call: Call, known: Served) -> Answer:
    answer = call.answer(api_keys=_offered(call, known), **features(known, call.api_version))
    call.cluster.encoded_versions[_key(call)] = encode(answer.response)
    return answer


async def _later(call: Call, deps: AsksVersions) -> Answer:
    return _answered(call, await deps.versions())
