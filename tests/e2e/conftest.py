"""One cluster for the tests that hurt brokers; each leaves it whole."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster
from tests.integration.stack import running_stack


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir = tmp_path_factory.mktemp("cluster") / "data"
    with running_stack(data_dir, "--session-timeout-ms", "2000", brokers=3) as stack:
        yield Cluster(stack)
