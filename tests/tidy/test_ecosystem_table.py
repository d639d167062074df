"""docs/clients.md tells what the tier `ecosystem` came to, and nothing else."""

from tests.ecosystem.certificate import Part, read
from tests.tidy.ecosystem_table import PAGE, of_page, rendered


def test_the_table_is_what_the_tier_came_to() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.ecosystem_table --rewrite"


def test_every_part_has_a_result() -> None:
    assert set(read()) == {part.value for part in Part}
