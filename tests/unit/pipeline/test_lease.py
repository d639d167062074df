"""What a lease says where the disk does not let us have one."""

from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.ingest.lease import table_lease


def test_a_table_that_cannot_be_held_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(PipelineError, match=r"table .*/file/orders cannot be held: Not a directory"),
        table_lease(tmp_path / "file" / "orders", "me"),
    ):
        pytest.fail("it is not ours")
