"""docs/ckafka.md lists the actions and the error codes that the code has."""

from tenants.ckafka.request.errors import Code
from tests.tidy.ckafka_tables import PAGE, of_page, rendered


def test_the_tables_are_those_of_the_code() -> None:
    assert of_page(PAGE.read_text()) == rendered(), "renew: python -m tests.tidy.ckafka_tables --rewrite"


def test_every_error_code_is_explained() -> None:
    text = PAGE.read_text()
    assert [code for code in Code if f"`{code}`" not in text] == []
