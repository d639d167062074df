"""DuckDB for sums over usage: in this process, within a part of its memory, and on disk beyond it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from pipeline.layout import PipelineLayout
from pipeline.memory import memory_here

Settings = dict[str, str | bool | int | float | list[str]]


@contextmanager
def engine(layout: PipelineLayout) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database that ends with the block."""
    layout.scratch.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=layout.scratch, prefix="duckdb-") as spilled,
        duckdb.connect(":memory:", config=_settings() | {"temp_directory": spilled}) as database,
    ):
        yield database


def small_engine() -> duckdb.DuckDBPyConnection:
    """The same without a place on disk, for what fits into its part of the memory."""
    return duckdb.connect(":memory:", config=_settings() | {"temp_directory": ""})


def _settings() -> Settings:
    return {
        "memory_limit": f"{memory_here() // 1024**2}MiB",
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
