"""What the command line does when a connection breaks: a POST is done once, however often it is sent."""

from collections.abc import Callable

import httpx
import pytest

from ctl import console_client
from ctl.console_client import Console
from ctl.errors import CommandError


def console(answer: Callable[[httpx.Request], httpx.Response], monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(console_client, "_RETRY_S", 0)
    made = Console.at("http://console", "key")
    made._http = httpx.Client(base_url="http://console", transport=httpx.MockTransport(answer))
    return made


def test_a_post_is_sent_again_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.RemoteProtocolError("gone", request=request)
        if len(keys) == 2:
            return httpx.Response(409, headers={"Retry-After": "1"}, json={"detail": "under way"})
        return httpx.Response(201, json={"id": "i1"})

    with console(answer, monkeypatch) as asked:
        assert asked.call("POST", "instances", {}) == {"id": "i1"}
        asked.call("POST", "instances", {})
    assert keys[0] == keys[1] == keys[2] != keys[3]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_what_has_no_key_is_sent_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        raise httpx.ReadError("gone", request=request)

    with console(answer, monkeypatch) as asked, pytest.raises(CommandError, match="does not answer"):
        asked.call(method, "instances/i1")
    assert len(sent) == 1


def test_who_is_not_there_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        raise httpx.ConnectError("refused", request=request)

    with console(answer, monkeypatch) as asked, pytest.raises(CommandError):
        asked.get("instances")
    assert len(sent) == 1
