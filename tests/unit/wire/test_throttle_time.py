"""The field is found in every version that tenants may use, and nothing else changes."""

import datetime

import pytest

from gateway.apis import LEGACY, SERVED
from wire import throttle_time
from wire.api_table import ApiKey
from wire.build import names_of, response
from wire.codec import decode_response, framed_response, response_class

VERSIONS = sorted({*SERVED, *LEGACY})
WITHOUT = {
    (ApiKey.PRODUCE, 0),
    (ApiKey.FETCH, 0),
    *((ApiKey.LIST_OFFSETS, version) for version in (0, 1)),
    *((ApiKey.METADATA, version) for version in (0, 1, 2)),
    (ApiKey.OFFSET_COMMIT, 2),
    *((ApiKey.OFFSET_FETCH, version) for version in (1, 2)),
    (ApiKey.FIND_COORDINATOR, 0),
    *((ApiKey.JOIN_GROUP, version) for version in (0, 1)),
    *((key, 0) for key in (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP)),
    *((key, 0) for key in (ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS)),
    *((ApiKey.SASL_HANDSHAKE, version) for version in (0, 1)),
    *((ApiKey.SASL_AUTHENTICATE, version) for version in (0, 1, 2)),
}


def ids(pair: tuple[int, int]) -> str:
    return f"{ApiKey(pair[0]).name}-{pair[1]}"


@pytest.mark.parametrize("pair", VERSIONS, ids=ids)
def test_the_field_is_raised_and_never_lowered(pair: tuple[int, int]) -> None:
    api_key, api_version = pair
    has_field = "throttle_time" in names_of(response_class(api_key, api_version))
    assert has_field == (pair not in WITHOUT)
    told = datetime.timedelta(milliseconds=70)
    known = {"throttle_time": told} if has_field else {}
    frame = framed_response(response(api_key, api_version, **known), 7)
    if not has_field:
        assert throttle_time.raised(frame, api_key, api_version, 1_234) == frame
        return
    assert throttle_time.raised(frame, api_key, api_version, 69) == frame
    raised = throttle_time.raised(frame, api_key, api_version, 1_234)
    correlation_id, decoded = decode_response(raised[4:], api_key, api_version)
    assert correlation_id == 7
    assert decoded.throttle_time == datetime.timedelta(milliseconds=1_234)
    expected = response(api_key, api_version, throttle_time=decoded.throttle_time)
    assert raised == framed_response(expected, 7)
