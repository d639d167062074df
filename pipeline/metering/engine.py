"""DuckDB for sums over usage: in this process, within a part of its memory, and on disk beyond it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from pipeline.layout import PipelineLayout
from pipeline.memory import memory_here


@contextmanager
def engine(layout: PipelineLayout) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database that ends with the block."""
    layout.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.scratch, prefix="duckdb-") as spilled:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory_here() // 1024**2}MiB",
            "temp_directory": spilled,
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        with duckdb.connect(":memory:", config=settings) as database:
            yield database
