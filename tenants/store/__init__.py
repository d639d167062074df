"""The control plane's SQL store: SQLite by default, Postgres in production."""
