"""A broker for group tests, and topics on it."""

import time
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, request
from wire.api_table import ApiKey


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that leave it as healthy as they found it."""
    with running_broker(tmp_path_factory.mktemp("groups")) as running:
        _wait_for_coordinators(running)
        yield running


def _wait_for_coordinators(broker: BrokerProcess) -> None:
    """A broker that has just started has yet to make the topic of the groups, and to lead it."""
    described = request(ApiKey.DESCRIBE_GROUPS, 5, groups=[f"any-{each}" for each in range(200)])
    deadline = time.monotonic() + 60
    with RawClient(broker.port) as client:
        while any(each.error_code is not ErrorCode.none for each in client.call(described).groups):
            assert time.monotonic() < deadline, "the broker does not lead the topic of the groups"
            time.sleep(0.05)


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client
