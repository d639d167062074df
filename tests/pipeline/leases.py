"""What a lease on a table is, in whatever store the table lies."""

import pytest

from pipeline.ingest import lease
from pipeline.ingest.lease import LeasedError, table_lease
from pipeline.store import StorePath


def must_be_held_lost_and_taken(table: StorePath, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one at a time; who is silent loses it. S3 tells times in seconds."""
    monkeypatch.setattr(lease, "LEASE_S", 2.0)
    monkeypatch.setattr(lease, "RENEWED_EVERY_S", 0.3)
    with table_lease(table, "the first") as is_ours:
        with pytest.raises(LeasedError, match="the first"), table_lease(table, "another", wait_s=4.5):
            pass
        assert is_ours()
    with table_lease(table, "the next"):
        pass
    monkeypatch.setattr(lease, "RENEWED_EVERY_S", 60.0)  # as one that is stopped
    with table_lease(table, "the silent one") as is_ours, table_lease(table, "another", wait_s=30) as theirs:
        assert theirs() and not is_ours()
    with table_lease(table, "the last", wait_s=30):
        pass
