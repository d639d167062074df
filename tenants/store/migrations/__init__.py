"""Alembic migrations, run by the control plane when it starts."""
