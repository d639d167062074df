"""Where processes without the tree report to."""

import msgspec

from runtime.internal_http import InternalError
from runtime.master_address import ReferredAddress

CONTROL = "http://control:1"


def refusal(master: str | None) -> InternalError:
    body = msgspec.json.encode({"title": "Service Unavailable", "status": 503, "master": master})
    return InternalError(503, "not elected", body)


def test_who_is_not_elected_names_who_is() -> None:
    address = ReferredAddress(CONTROL)
    assert address.url == CONTROL
    address.failed(refusal("http://other:2"))
    assert address.url == "http://other:2"
    address.failed(refusal("http://third:3"))
    assert address.url == "http://third:3"


def test_where_nobody_answers_the_control_plane_is_asked_again() -> None:
    address = ReferredAddress(CONTROL)
    for failure in (
        InternalError(0, "refused"),
        refusal(None),
        InternalError(500, "?", b"<html>"),
        InternalError(503, "?", b"\xff"),
        InternalError(503, "?", b'{"master": 7}'),
    ):
        address.failed(refusal("http://other:2"))
        address.failed(failure)
        assert address.url == CONTROL
