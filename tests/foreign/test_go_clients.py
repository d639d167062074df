"""Go clients at a vip:vport, by the programs and the judge of tier `clients`."""

import pytest

from tests.clients.certificate import unnamed
from tests.clients.lane import Given, run
from tests.clients.places import BUILT_IN, Place
from tests.clients.programs import FRANZ_GO, KAFKA_GO, SARAMA, Client
from tests.integration.stack import Stack


@pytest.mark.go
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", [FRANZ_GO, SARAMA, KAFKA_GO], ids=lambda client: client.name)
def test_a_go_client(stack: Stack, client: Client) -> None:
    instance = Place(stack, stack.data_dir).instance(client.name, "plain")
    found = run(client, instance, Given(instance), "plain")
    assert not (complaints := unnamed(client.name, f"{BUILT_IN}, plain", found)), "\n".join(complaints)
