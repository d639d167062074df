"""Every client at both backends, in the clear and by TLS with a login, judged by the records."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.certificate import MATRIX, holds, unnamed
from tests.clients.lane import Given, run
from tests.clients.places import BACKENDS, WAYS, Place, running
from tests.clients.programs import CLIENTS, Client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def place(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running(backend, tmp_path_factory.mktemp("place")) as found:
        yield found


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name.replace(" ", "-"))
def test_a_client(place: Place, backend: str, client: Client) -> None:
    instance = place.instance(
        "".join(one if one.isalnum() else "-" for one in client.name).strip("-").lower()
    )
    given = Given(instance)
    client.command()  # built before its time counts
    with ThreadPoolExecutor(len(WAYS)) as both:
        found = dict(zip(WAYS, both.map(lambda way: run(client, instance, given, way), WAYS), strict=True))
    lanes = {f"{backend}, {way}": cells for way, cells in found.items()}
    complaints = [each for lane, cells in lanes.items() for each in unnamed(client.name, lane, cells)]
    assert not complaints, "\n".join(complaints)
    for lane, cells in lanes.items():
        held = {cell: not wrong for cell, wrong in cells.items()}
        holds(MATRIX, client.name, client.version(), lane, held)
