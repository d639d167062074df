"""One broker for all tests that leave it as healthy as they found it."""

from collections.abc import Iterator

import pytest

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client
