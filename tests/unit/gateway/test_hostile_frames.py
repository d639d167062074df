"""Each row of the gateway's table against lies about lengths, counts and tagged fields, new rows as well."""

import tracemalloc
from typing import Final

import pytest

from gateway.apis import APIS, SERVED
from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop
from tests.unit.gateway.session_host import SessionHost, served_instance
from tests.unit.wire.hostile import TAGS_MANY, hostile_requests, right_request
from wire.api_table import ApiKey
from wire.faults import MalformedFrame, NameFault, TooManyEntries

_HELD_BYTES_MAX: Final = 1024 * 1024
_HELD_TIMES_MAX: Final = 40
"""Beyond that, bytes for each byte of the frame."""
_REFUSALS: Final = (DisconnectCause.REQUEST_TOO_LARGE, DisconnectCause.MALFORMED_REQUEST)


def _versions(api_key: int) -> list[int]:
    return [version for key, version in SERVED if key == api_key]


def _ended(host: SessionHost, frame: bytes) -> DisconnectCause | None:
    """Why the connection has to be closed, as the worker counts it."""
    try:
        host.client_sends(frame)
    except ConnectionStop as stop:
        return stop.cause
    except TooManyEntries:
        return DisconnectCause.REQUEST_TOO_LARGE
    except (MalformedFrame, NameFault):
        return DisconnectCause.MALFORMED_REQUEST
    return None


@pytest.mark.parametrize("api_key", APIS, ids=lambda key: ApiKey(key).name)
def test_lies_end_the_connection_or_go_no_further(api_key: int) -> None:
    served = served_instance()
    for version in _versions(api_key):
        right = len(right_request(api_key, version))
        for what, frame, may_pass in hostile_requests(api_key, version):
            host, case = SessionHost(served), f"v{version} {what}"
            tracemalloc.start()
            cause = _ended(host, frame)
            held = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert held < _HELD_BYTES_MAX + _HELD_TIMES_MAX * len(frame), f"{case}: {held} bytes"
            if not may_pass:
                assert cause in _REFUSALS and not host.up, f"{case}: {cause}, and {len(host.up)} bytes go up"
            else:
                assert cause in (None, *_REFUSALS), f"{case}: {cause}"
                assert len(host.up) < right + TAGS_MANY, f"{case}: unknown tags go up"


@pytest.mark.parametrize(("api_key", "version"), SERVED)
def test_what_they_are_made_of_is_no_fault(api_key: int, version: int) -> None:
    """Without the lie the same bytes are a request."""
    host = SessionHost(served_instance())
    host.client_sends(right_request(api_key, version))
    assert host.up or host.down
