"""docs/clients.md says which of Kafka's APIs are there, and why where one is not."""

from tests.tidy.api_table import PAGE, WHY, of_page, rendered, rows


def test_the_table_is_that_of_the_code() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.api_table --rewrite"


def test_what_is_less_says_why_and_nothing_else_does() -> None:
    assert {row.api.name for row in rows() if not row.is_whole} == set(WHY)


def test_no_api_is_higher_than_apaches() -> None:
    for row in rows():
        for version in (row.ours, row.apaches):
            assert version is None or version <= row.api.highest, row
