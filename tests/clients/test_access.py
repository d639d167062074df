"""Users, ACLs and certificates by real clients: allowed and refused as by an Apache Kafka, with its names."""

from collections.abc import Iterator, Mapping
from itertools import groupby

import pytest

from tests.clients.access import TOPICS, Doors, cases, control, ours, prepare, told
from tests.clients.certificate import ACCESS, holds, unnamed
from tests.clients.places import BACKENDS, Place, running
from tests.clients.programs import FRANZ_GO, JAVA, KAFKAJS, LIBRDKAFKA, Client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
ASKED = (JAVA, LIBRDKAFKA, FRANZ_GO, KAFKAJS)
GIVEN = tuple(f"given-to-{client.name}".replace(" ", "-") for client in ASKED)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The control."""
    with control(tmp_path_factory.mktemp("control")) as (doors, of_certificates):
        for administrator in (doors.administrator, of_certificates):
            prepare(administrator, TOPICS + GIVEN)
        yield doors


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def place(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running(backend, tmp_path_factory.mktemp("access"), brokers=1) as found:
        yield found


@pytest.fixture(scope="module")
def instance(place: Place) -> Doors:
    doors = ours(place, "access")
    prepare(doors.administrator, TOPICS + GIVEN)
    return doors


def came_to(client: Client, doors: Doors) -> dict[str, str]:
    """Of each case."""
    asked = cases(client.name.replace(" ", "-"))
    found: dict[str, str] = {}
    for who, those in groupby(asked.items(), lambda each: each[1][0]):
        steps = {case: step for case, (_, step) in those}
        connection = doors.who("user" if who == "granted" else who)
        answers = client.ran(connection, list(steps.values()))
        found |= {case: told(answer) for case, answer in zip(steps, answers, strict=True)}
    return found


def unlike(there: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with each case here, where there is an Apache Kafka."""
    return {
        case: "" if here[case] == name else f"{here[case]}, {name} at an Apache Kafka"
        for case, name in there.items()
    }


@pytest.mark.parametrize("client", ASKED, ids=lambda client: client.name.replace(" ", "-"))
def test_a_client_is_told_what_an_apache_kafka_tells(
    kafka: Doors, instance: Doors, backend: str, client: Client
) -> None:
    there, here = came_to(client, kafka), came_to(client, instance)
    found = unlike(there, here)
    assert not (complaints := unnamed(client.name, backend, found)), "\n".join(complaints)
    holds(ACCESS, client.name, client.version(), backend, here)
