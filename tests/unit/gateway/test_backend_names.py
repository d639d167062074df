"""Brokers that are known by name: looked up off the data path, again and again, each for itself."""

import asyncio
import socket
from typing import Any

import pytest

from contracts.specs import BrokerAddress, ClusterSpec
from gateway.backend import Backend
from runtime.upstream import Upstreams

NAMES = {"broker-1.kafka": "10.1.1.1", "broker-2.kafka": "10.1.1.2"}


def _cluster(*hosts: str, revision: int = 1) -> ClusterSpec:
    brokers = tuple(BrokerAddress(node_id=n, host=host, port=9092) for n, host in enumerate(hosts, 1))
    return ClusterSpec(revision=revision, cluster_id="builtin-1", brokers=brokers)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the name server knows."""
    known = dict(NAMES)

    async def getaddrinfo(_loop: object, host: str, port: Any, **_kind: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], port or 0))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return known


async def test_a_name_that_moved_is_followed(names: dict[str, str]) -> None:
    backend = Backend(_cluster("broker-1.kafka"), None, Upstreams(None))
    assert backend.address(1) is None  # never a look-up where a client's bytes wait
    await backend.resolve()
    assert backend.address(1) == ("10.1.1.1", 9092)
    names["broker-1.kafka"] = "10.7.7.7"
    await backend.resolve()
    assert backend.address(1) == ("10.7.7.7", 9092)


async def test_one_unknown_name_keeps_its_address_and_holds_up_no_other(names: dict[str, str]) -> None:
    backend = Backend(_cluster("broker-1.kafka", "broker-2.kafka"), None, Upstreams(None))
    await backend.resolve()
    del names["broker-1.kafka"]
    names["broker-2.kafka"] = "10.2.2.2"
    await backend.resolve()
    assert backend.address(1) == ("10.1.1.1", 9092)
    assert backend.address(2) == ("10.2.2.2", 9092)


async def test_bootstrap_connections_go_to_brokers_that_are_known(names: dict[str, str]) -> None:
    del names["broker-1.kafka"]
    backend = Backend(
        _cluster("broker-1.kafka", "broker-2.kafka", "10.9.9.9", "::1", "localhost"), None, Upstreams(None)
    )
    await backend.resolve()
    reached = {backend.address(None) for _ in range(10)}
    assert reached == {(host, 9092) for host in ("10.1.1.2", "10.9.9.9", "::1", "127.0.0.1")}
    assert backend.address(1) is None


async def test_what_left_the_cluster_is_forgotten(names: dict[str, str]) -> None:
    backend = Backend(_cluster("broker-1.kafka"), None, Upstreams(None))
    await backend.resolve()
    backend.apply(_cluster("broker-2.kafka", revision=2))
    await backend.resolve()
    backend.apply(_cluster("broker-1.kafka", revision=3))
    assert backend.address(1) is None
