"""Whoever charges a Produce, the broker or the gateway: together it is what crossed the tenant's socket."""

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from gateway.handlers import produce
from tests.unit.gateway.session_host import Frames, SessionHost, decoded_request, served_instance
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import framed_request, request_class
from wire.hot.produce import request_growth

SIZES = (1, 113, 114, 126, 127, 200)
"""Of names: a compact length gets wider at some of them."""


def _request(version: int, names: list[str], transactional_id: str | None) -> Any:
    partitions = [
        {"index": 0, "records": b"r" * 300},
        {"index": 1, "records": None},
        {"index": 2, "records": b"r"},
    ]
    topics = [{"name": name, "partition_data": partitions} for name in names]
    fields = {"acks": -1, "transactional_id": transactional_id, "topic_data": topics}
    return build(request_class(ApiKey.PRODUCE, version), fields)


def _charged(host: SessionHost) -> int:
    """By the gateway, and by a broker of ours for what went up."""
    total = sum(one.produce_bytes for one in host.around.charges)
    for frame in Frames().take(bytes(host.up)):
        _, version, _, request = decoded_request(frame)
        growth = request_growth(version, len(request.topic_data), request.transactional_id)
        total += 4 + len(frame) - growth
    return total


def _with_header_tag(frame: bytes) -> bytes:
    """The frame with a tagged field in its header that nobody knows: it does not go up decoded."""
    at = 14 + struct.unpack_from(">h", frame, 12)[0]
    assert frame[at] == 0
    body = frame[4:at] + b"\1\7\2xy" + frame[at + 1 :]
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("transactional_id", [None, "t" * 120])
@pytest.mark.parametrize("refused", [(), ("secret",), ("secret", "s" * 126)])
def test_each_byte_once(version: int, transactional_id: str | None, refused: tuple[str, ...]) -> None:
    for size in SIZES:
        host = SessionHost(served_instance(dict.fromkeys(refused, ("10.0.0.0/8",))))
        frame = framed_request(_request(version, ["o" * size, "p", *refused], transactional_id), 5, "client")
        if version >= 9:
            frame = _with_header_tag(frame)
        host.client_sends(frame)
        assert host.up
        assert _charged(host) == len(frame)


def test_nothing_of_a_frame_that_is_refused_whole_goes_up() -> None:
    host = SessionHost(served_instance({"secret": ("10.0.0.0/8",)}))
    frame = framed_request(_request(9, ["secret"], None), 5, "client")
    host.client_sends(frame)
    assert not host.up and _charged(host) == len(frame)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("listed", [(), ("secret",)])
def test_each_byte_once_where_a_fault_refuses_single_partitions(
    monkeypatch: pytest.MonkeyPatch, version: int, listed: tuple[str, ...]
) -> None:
    errors = {("o" * 120, 0): ErrorCode.message_too_large, ("o" * 120, 2): ErrorCode.message_too_large}
    monkeypatch.setattr(produce, "produce_errors", lambda *_: errors)
    monkeypatch.setattr(produce, "on_request", produce.on_fault)
    host = SessionHost(served_instance({"secret": ("10.0.0.0/8",), "never": ("10.0.0.0/8",)}))
    monkeypatch.setattr(produce, "take_frame", lambda *_: None)
    frame = framed_request(_request(version, ["o" * 120, "p", *listed], "t"), 5, "client")
    host.client_sends(frame)
    assert host.up
    assert _charged(host) == len(frame)
