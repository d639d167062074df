"""A log that may be compacted."""

from pathlib import Path

import pytest

from broker.log.partition_log import PartitionLog
from broker.storage.manager import LogManager
from tests.unit.broker_log.builders import (
    new_log_in,
    open_manager,
)
from tests.unit.broker_log.compaction.compacted_log import COMPACT


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    return open_manager(tmp_path, COMPACT)[0]


@pytest.fixture
def log(manager: LogManager) -> PartitionLog:
    return new_log_in(manager, COMPACT)
