"""ApiVersions (18), v0-3.

Behaviour: answers the table of `broker.requests.apis` without what only brokers are served. A version we
do not know gets the v0 body with error 35 and the table, so that the client can step down. The response
header is always v0.
Deliberately not done: features and finalized features (none exist); throttling.
Versions: v1 throttle_time_ms; v3 client software name, flexible (KIP-511).
"""

from functools import lru_cache

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.requests.apis import APIS
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


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
    return shape.make(error_code=error_code, api_keys=keys, throttle_time=duration(0))


def handle(call: Call, deps: object) -> None:  # noqa: ARG001 - every handler has this signature
    known = APIS[ApiKey.API_VERSIONS].versions.serves(call.api_version)
    if known:
        call.reply(_answer(call.api_version, ErrorCode.none))
    else:
        call.reply(_answer(0, ErrorCode.unsupported_version))
