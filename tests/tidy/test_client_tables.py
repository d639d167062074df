"""docs/clients.md tells what the tier `clients` came to, and nothing else."""

from tests.clients.certificate import ACCESS, MATRIX, WAYS_IN, limits, read
from tests.clients.lane import CELLS
from tests.clients.places import BACKENDS, WAYS
from tests.clients.programs import CLIENTS
from tests.tidy.client_tables import PAGE, of_page, rendered


def test_the_tables_are_what_the_tier_came_to() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.client_tables --rewrite"


def test_every_client_has_been_tried() -> None:
    told = read()
    names = {client.name for client in CLIENTS}
    assert set(told[MATRIX]) == names == set(told[WAYS_IN])
    lanes = {f"{backend}, {way}" for backend in BACKENDS for way in WAYS}
    assert all(set(row["lanes"]) == lanes for row in told[MATRIX].values())
    assert all(tuple(cells) == CELLS for row in told[MATRIX].values() for cells in row["lanes"].values())
    assert all(set(row["lanes"]) == set(BACKENDS) for row in told[ACCESS].values())


def test_every_cell_that_does_not_hold_has_a_name() -> None:
    told = read()
    red = {
        (client, lane, cell)
        for table in (MATRIX, WAYS_IN)
        for client, row in told[table].items()
        for lane, cells in row["lanes"].items()
        for cell, held in cells.items()
        if not held
    }
    assert {each for each in red if not any(one.covers(*each) for one in limits())} == set()
