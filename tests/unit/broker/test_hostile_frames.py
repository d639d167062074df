"""Each row of a broker's table against lies about lengths, counts and tagged fields, new rows as well."""

import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from broker.requests.apis import APIS, Api
from tests.unit.wire.hostile import hostile_requests, right_request
from wire.api_table import ApiKey
from wire.codec import decode, is_flexible, parse_request_header, request_class
from wire.faults import MalformedFrame
from wire.hot.fetch import scan_fetch
from wire.hot.produce import scan_produce

_HELD_BYTES_MAX: Final = 1024 * 1024
_HELD_TIMES_MAX: Final = 40
"""Beyond that, bytes for each byte of the frame."""
_SCANNERS: Final[dict[int, Callable[..., Any]]] = {ApiKey.PRODUCE: scan_produce, ApiKey.FETCH: scan_fetch}
_KAFKAS: Final = [row for row in APIS.values() if not row.is_ours]


def _read(row: Api, version: int, frame: bytes) -> None:
    """As the server reads it, before the handler. Raises: MalformedFrame."""
    body = frame[4:]
    header = parse_request_header(body, is_flexible(row.key, version))
    if row.raw:
        _SCANNERS[row.key](memoryview(body), header.body_at, version)
    else:
        decode(request_class(row.key, version), body, header.body_at)


@pytest.mark.parametrize("row", _KAFKAS, ids=lambda row: row.key.name)
def test_lies_are_malformed_or_left_out(row: Api) -> None:
    for version in {
        row.versions.lowest,
        row.versions.highest,
    }:  # those between: test_hostile_frames of the gateway
        _read(row, version, right_request(row.key, version))
        for what, frame, may_pass in hostile_requests(row.key, version):
            tracemalloc.start()
            try:
                _read(row, version, frame)
            except MalformedFrame:
                pass
            else:
                assert may_pass, f"v{version} {what}"
            finally:
                held = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert held < _HELD_BYTES_MAX + _HELD_TIMES_MAX * len(frame), f"v{version} {what}: {held} bytes"
