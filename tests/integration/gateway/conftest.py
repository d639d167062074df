"""A fake broker and a gateway in front of it, in the test's own loop."""

from collections.abc import AsyncIterator

import pytest

from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, B, RunningGateway, instance_spec, running_gateway


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    fake = FakeBroker()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def gateway(broker: FakeBroker) -> AsyncIterator[RunningGateway]:
    """Two instances, open to all."""
    async with running_gateway(broker.port, instance_spec(A), instance_spec(B)) as running:
        yield running
