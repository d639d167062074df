"""A broker has what its handlers and parts name in their Protocols, of the types they name."""

import typing
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from broker.app import Broker
from broker.config import BrokerConfig
from broker.control.reporting import Reported
from broker.monitoring.gauges import Measured
from broker.requests.apis import APIS
from broker.upkeep.maintenance import Maintained


def _named(protocol: type) -> dict[str, typing.Any]:
    """Every attribute and method of a Protocol and of those it extends."""
    named: dict[str, typing.Any] = {}
    for each in protocol.__mro__:
        if each in (typing.Protocol, typing.Generic, object):
            continue
        named.update({name: Callable for name in vars(each) if not name.startswith("_")})
    return named | typing.get_type_hints(protocol)


def _protocols() -> list[tuple[str, type]]:
    found: list[tuple[str, type]] = [(each.__name__, each) for each in (Maintained, Measured, Reported)]
    for row in APIS.values():
        handle = import_module(f"broker.handlers.{row.module}").handle
        found.append((row.module, typing.get_type_hints(handle)["deps"]))
    return found


@pytest.fixture
async def broker(tmp_path: Path) -> typing.AsyncIterator[Broker]:
    broker = Broker(BrokerConfig(node_id=1, cluster_id="test", data_dir=tmp_path, listen_port=0))
    await broker.start()
    yield broker
    await broker.stop()


async def test_a_broker_has_what_is_named(broker: Broker) -> None:
    protocols = _protocols()
    assert len(protocols) == len(APIS) + 3
    total = 0
    for where, protocol in protocols:
        for name, wanted in _named(protocol).items():
            total += 1
            assert hasattr(broker, name), f"{where} names {name}"
            value = getattr(broker, name)
            kind = typing.get_origin(wanted) or wanted
            if not getattr(kind, "_is_protocol", False):
                assert isinstance(value, kind), (where, name, value)
    assert total > 80
