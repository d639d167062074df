"""The metrics of brokers and gateways: behind the secret, and bounded."""

import contextlib
import socket
import threading

import httpx
import pytest

from runtime import metrics

SECRET = "of the deployment"


def _get(port: int, secret: str | None) -> httpx.Response:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return httpx.get(f"http://127.0.0.1:{port}/metrics", headers=headers, trust_env=False, timeout=20)


def test_without_the_secret_nothing_is_told() -> None:
    port = metrics.serve("127.0.0.1", 0, SECRET).port
    for wrong in (None, "wrong", "of the deploymen", SECRET * 2):
        answer = _get(port, wrong)
        assert answer.status_code == 401
        assert "python_info" not in answer.text
    for right in (SECRET, metrics.scrape_token(SECRET)):
        answer = _get(port, right)
        assert answer.status_code == 200
        assert "python_info" in answer.text


def test_the_scrape_token_is_not_the_secret_and_does_not_tell_it() -> None:
    token = metrics.scrape_token(SECRET)
    assert SECRET not in token and token != metrics.scrape_token(SECRET + "!")


def test_a_taken_port_stops_no_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        endpoint = metrics.serve("127.0.0.1", taken, SECRET)
    assert endpoint.port != taken
    assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/metrics"
    assert _get(endpoint.port, SECRET).status_code == 200


def test_where_there_is_no_secret_none_is_asked_for() -> None:
    assert _get(metrics.serve("127.0.0.1", 0, None).port, None).status_code == 200


def test_stalled_requests_cost_few_threads_and_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "REQUEST_TIMEOUT_S", 0.5)
    port = metrics.serve("127.0.0.1", 0, SECRET).port
    before = threading.active_count()
    with contextlib.ExitStack() as held:
        stalled = []
        for _ in range(200):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            connection.sendall(b"GET /metrics HTTP/1.1\r\n")
            stalled.append(connection)
        # each has its thread and its timer
        assert threading.active_count() <= before + 2 * metrics.THREADS_MAX
        for connection in stalled:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
    assert _get(port, SECRET).status_code == 200


def test_ready_asks_for_no_secret_and_says_why_not() -> None:
    reasons = ["logs are read", None]
    port = metrics.serve("127.0.0.1", 0, SECRET, unready=lambda: reasons.pop(0)).port
    url = f"http://127.0.0.1:{port}/readyz"
    answers = [httpx.get(url, trust_env=False, timeout=20) for _ in range(2)]
    assert [(each.status_code, each.text) for each in answers] == [(503, "logs are read\n"), (200, "ready\n")]
    assert httpx.get(url + "/x", trust_env=False, timeout=20).status_code == 401
