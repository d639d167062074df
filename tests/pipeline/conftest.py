"""One Spark session for all tests of the tier: a second one costs ten seconds."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import SparkSession

from pipeline.layout import PipelineLayout
from pipeline.session import spark_session
from pipeline.spark_at import SparkAt

_HERE = Path(__file__).parent
_SECONDS_MAX = 900
"""Of one test, where several Spark starts are one: a busy machine is no failure."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    small = SparkAt("local[2]", {"spark.driver.memory": "2g"})
    odd_folder = tmp_path_factory.mktemp("it's spark's")
    session = spark_session(odd_folder, at=small)
    yield session
    session.stop()


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return PipelineLayout(tmp_path)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A path that is another place for Spark's JVM than for us, as local disks of a cluster are."""
    name = f"elsewhere-{uuid.uuid4().hex}"
    spark_is_in = Path.cwd()
    monkeypatch.chdir(tmp_path)
    yield Path("/proc/self/cwd") / name
    rmtree(spark_is_in / name)
