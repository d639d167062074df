"""SASL PLAIN, settings, log limits, metrics."""

from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.registry import CollectorRegistry

from broker.config import BrokerConfig
from broker.metadata.topic_names import name_fault
from broker.net.rules.rate_limited import RateLimitedLog
from broker.requests.causes import CloseCause
from broker.requests.login import PeerBroker, check_plain, client_of, peer_broker
from broker.requests.metrics import BrokerMetrics


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"\0portico\0s", ""),
        (b"10.0.0.1:5\0portico\0s", "10.0.0.1:5"),
        (b"\0portico\0wrong", None),
        (b"\0other\0s", None),
        (b"portico\0s", None),
        (b"", None),
        (b"\0portico\0s\0", None),
        (b"\0\xff\0\xff", None),
    ],
)
def test_plain_tokens(token: bytes, expected: str | None) -> None:
    assert check_plain(token, "s") == expected


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("10.0.0.1:5", (None, "10.0.0.1")),
        ("[::1]:5", (None, "::1")),
        ("iabcdefghijk/10.0.0.1:5", ("iabcdefghijk", "10.0.0.1")),
        ("iabcdefghijk/[::1]:5", ("iabcdefghijk", "::1")),
        ("iabcdefghij1/10.0.0.1:5", None),
        ("/10.0.0.1:5", None),
        ("broker/1/7", None),
        ("", None),
        ("x", None),
        ("h:p", None),
        (":5", None),
    ],
)
def test_clients(text: str, client: tuple[str | None, str] | None) -> None:
    assert client_of(text) == client


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "x" * 250, "a/b", "a\n"])
def test_illegal_topic_names(name: str) -> None:
    assert name_fault(name)


@pytest.mark.parametrize("name", ["a", "...", "a.b_c-D9", "x" * 249])
def test_legal_topic_names(name: str) -> None:
    assert name_fault(name) is None


def test_settings_name_all_their_faults(tmp_path: Path) -> None:
    good = BrokerConfig(node_id=1, cluster_id="c", data_dir=tmp_path)
    assert good.faults() == []
    bad = BrokerConfig(
        node_id=-1, cluster_id="", data_dir=tmp_path, listen_host="0.0.0.0", control_url="http://x"
    )
    assert len(bad.faults()) == 4
    assert "secret" not in repr(BrokerConfig(node_id=1, cluster_id="c", data_dir=tmp_path, secret="hidden"))


def test_lines_that_peers_cause_are_bounded() -> None:
    lines: list[tuple[str, dict[str, Any]]] = []

    class Logger:
        def warning(self, event: str, **values: Any) -> None:
            lines.append((event, values))

    log = RateLimitedLog(Logger())
    for _ in range(100):
        log.warning("refused", 0)
    log.warning("another", 0)
    assert len(lines) == 6
    log.warning("refused", 10_000)
    assert lines[-1] == ("refused", {"suppressed": 95})


def test_metrics_are_what_was_counted() -> None:
    metrics = BrokerMetrics()
    metrics.closed(CloseCause.IDLE)
    metrics.append.observe(70_000)
    metrics.append.observe(9_000_000_000)
    metrics.requests[0] += 3
    metrics.gauges["things"] = ("Things.", lambda: 7.0)
    registry = CollectorRegistry()
    registry.register(metrics)
    text = prometheus_client.generate_latest(registry).decode()
    assert 'portico_broker_connections_closed_total{cause="idle"} 1.0' in text
    assert 'portico_broker_connections_closed_total{cause="frame_too_large"} 0.0' in text
    assert 'portico_broker_requests_total{api="produce"} 3.0' in text
    assert 'portico_broker_append_seconds_bucket{le="0.0001"} 1.0' in text
    assert 'portico_broker_append_seconds_bucket{le="+Inf"} 2.0' in text
    assert "portico_broker_things 7.0" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker/1/42", PeerBroker(1, 42)),
        (PeerBroker(999, 2**40).authorization_id, PeerBroker(999, 2**40)),
        ("broker/1/", None),
        ("broker/-1/2", None),
        ("broker/1/2/3", None),
        ("broker/1/\u0661", None),
        ("10.0.0.1:5", None),
        ("", None),
    ],
)
def test_a_broker_says_who_it_is(text: str, expected: PeerBroker | None) -> None:
    assert peer_broker(text) == expected
