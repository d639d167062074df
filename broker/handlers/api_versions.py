"""ApiVersions (18), v0-4.

Behaviour: answers the table of `broker.requests.apis` without what only brokers are served. A version we
do not know gets the v0 body with error 35 and the table, so that the client can step down. The response
header is always v0.
Features: group.version and transaction.version, which are always on; they can be off in Kafka, and versions
below 4 are not told of supported features that can (KIP-584).
Deliberately not done: throttling.
Versions: v1 throttle_time_ms; v3 client software name, flexible (KIP-511), features; v4 all of them.
"""

from functools import lru_cache
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.requests.apis import APIS
from broker.requests.call import Call
from wire.api_table import GROUP_VERSION, TRANSACTION_VERSION, ApiKey
from wire.build import response_shape
from wire.codec import duration

_ALL_FEATURES_FROM: Final = 4
_FEATURES: Final = ((GROUP_VERSION, 1), (TRANSACTION_VERSION, 2))
"""Each with its level."""


@lru_cache
def _answer(api_version: int, error_code: ErrorCode) -> Entity:
    shape = response_shape(ApiKey.API_VERSIONS, api_version)
    keys = tuple(
        shape.nested(
            "ApiVersion",
            api_key=int(api.key),
            min_version=api.versions.advertised_min,
            max_version=api.versions.highest,
        )
        for _, api in sorted(APIS.items())
        if not api.is_ours
    )
    features: dict[str, object] = {}
    if shape.has("FinalizedFeatureKey"):
        features["finalized_features_epoch"] = 0
        features["finalized_features"] = tuple(
            shape.nested("FinalizedFeatureKey", name=name, max_version_level=level, min_version_level=level)
            for name, level in _FEATURES
        )
    if api_version >= _ALL_FEATURES_FROM:
        features["supported_features"] = tuple(
            shape.nested("SupportedFeatureKey", name=name, min_version=0, max_version=level)
            for name, level in _FEATURES
        )
    return shape.make(error_code=error_code, api_keys=keys, throttle_time=duration(0), **features)


def handle(call: Call, deps: object) -> None:  # noqa: ARG001 - every handler has this signature
    known = APIS[ApiKey.API_VERSIONS].versions.serves(call.api_version)
    if known:
        call.reply(_answer(call.api_version, ErrorCode.none))
    else:
        call.reply(_answer(0, ErrorCode.unsupported_version))
