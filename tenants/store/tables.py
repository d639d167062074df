"""What all tables share. They themselves are in `tenants.store.schema`."""

from typing import Final

from sqlalchemy import BigInteger, Integer, MetaData

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
COUNTER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself only in INTEGER primary keys."""
