"""A broker for group tests, and topics on it."""

from collections.abc import Iterator

import pytest

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that leave it as healthy as they found it."""
    with running_broker(tmp_path_factory.mktemp("groups")) as running:
        yield running


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client
