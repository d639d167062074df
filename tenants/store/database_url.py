"""Where the control plane keeps its rows, as people name it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVER: Final = "postgresql+psycopg"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """`sqlite:////path` or `postgresql+psycopg://...`: text of it hides the password."""

    url: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "DatabaseUrl":
        """Of `sqlite:////path` or `postgresql://user:password@host/name`.

        Raises: ValueError with a sentence.
        """
        url = _made(text)
        if url.drivername in ("postgres", "postgresql", DRIVER):
            if not url.database:
                raise ValueError("the URL names no database: postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
            url = url.set(drivername=DRIVER)
        elif url.drivername != "sqlite" or not url.database:
            raise ValueError(
                "the database is a Postgres (postgresql://...) or a SQLite file (sqlite:////PATH)"
            )
        return cls(url.render_as_string(hide_password=False))

    @property
    def is_postgres(self) -> bool:
        """Whether it is no file."""
        return _made(self.url).get_backend_name() == "postgresql"

    def __str__(self) -> str:
        return _made(self.url).render_as_string(hide_password=True)


def _made(text: str) -> "URL":
    # Most commands of the command line name no database; SQLAlchemy would be a third of their time.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text)
    except ArgumentError as error:
        raise ValueError("it is no URL such as postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from error
