"""A broker for transactions, and topics on it."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that leave it as healthy as they found it."""
    with running_broker(tmp_path_factory.mktemp("transactions")) as running:
        yield running


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture(scope="package")
def new_topic(broker: BrokerProcess) -> Callable[[int], str]:
    """Creates a topic of so many partitions; its name."""
    numbers = itertools.count()
    admin = AdminClient({"bootstrap.servers": broker.address})

    def create(partitions: int = 1) -> str:
        name = f"topic-{next(numbers)}"
        for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(10)
        return name

    return create
