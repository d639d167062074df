"""Our own rows about lake tables."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from pipeline.errors import PipelineError
from pipeline.lake.own_rows import append_rows
from pipeline.layout import PipelineLayout
from pipeline.schema.lake_audit import LAKE_FORGETS


def test_a_table_of_an_earlier_version_is_left_as_it_is(tmp_path: Path) -> None:
    layout = PipelineLayout(tmp_path)
    old = pa.schema([("run", pa.string()), ("hour", pa.timestamp("us", "UTC"))])
    path = layout.about_lake("lake_forgets")
    path.mkdir(parents=True)
    DeltaTable.create(str(path), Schema.from_arrow(old))
    with pytest.raises(PipelineError, match=r"of an earlier version has no .*move it away"):
        append_rows(layout, "lake_forgets", LAKE_FORGETS, "", [], "forget")
    assert DeltaTable(str(path)).version() == 0
