"""Each way of logging in that a client has: a record goes in by it, and comes out."""

from collections.abc import Iterator

import pytest

from tests.clients import contract
from tests.clients.certificate import WAYS_IN, holds, unnamed
from tests.clients.judging import answered, unlike, written
from tests.clients.places import BUILT_IN, Instance, Place, running
from tests.clients.programs import CLIENTS, Client
from tests.clients.watcher import Watcher

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]
WAYS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "tls")
_COUNT = 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The way in is the gateway's alone: brokers of ours do for all."""
    with running(BUILT_IN, tmp_path_factory.mktemp("ways"), brokers=1) as found:
        yield found


@pytest.fixture(scope="module")
def instance(place: Place) -> Instance:
    return place.instance("ways")


def came_in(client: Client, instance: Instance, watcher: Watcher, topic: str, way: str) -> str:
    """What is wrong with a way."""
    watcher.create(topic)
    steps = [contract.produce(topic, "none", way, _COUNT), contract.read(topic, _COUNT, "read_uncommitted")]
    produced, read = client.ran(instance.connection(way), steps)
    wanted = written("none", way, _COUNT)
    wrong = answered(produced) or unlike(watcher.read(topic), wanted) or answered(read)
    return wrong or unlike(contract.records(read), wanted)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name.replace(" ", "-"))
def test_every_way_in(instance: Instance, client: Client) -> None:
    watcher = Watcher(instance.connection("plain"))
    topic = "".join(letter if letter.isalnum() else "-" for letter in client.name)
    found = {way: came_in(client, instance, watcher, f"{topic}-{way}", way) for way in WAYS}
    assert not (complaints := unnamed(client.name, WAYS_IN, found)), "\n".join(complaints)
    holds(WAYS_IN, client.name, client.version(), WAYS_IN, {way: not wrong for way, wrong in found.items()})
