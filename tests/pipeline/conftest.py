"""One Spark session for all tests of the tier: a second one costs ten seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.layout import PipelineLayout
from pipeline.session import spark_session

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
    session = spark_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return PipelineLayout(tmp_path)
