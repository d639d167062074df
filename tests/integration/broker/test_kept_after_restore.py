"""A tree that a restore wrote says until when nothing expires: brokers obey it, and only until then."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from broker.metadata import znode_paths as paths
from broker.metadata.znodes import encode_kept_until
from ctl.backup.tree_nodes import TreeNode, write_file
from runtime.clock import epoch_ms
from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce

_LOOKS = 20
_HOUR_MS = 3600 * 1000


def test_records_past_their_retention_are_kept_until_then(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "--retention-check-interval-ms", "50")
    broker.data_dir.mkdir()
    tree = broker.data_dir / "metadata.sqlite"
    kept = TreeNode(paths.KEPT_UNTIL, encode_kept_until(epoch_ms() + _HOUR_MS))
    asyncio.run(write_file(tree, [TreeNode("/portico", b""), kept]))
    broker.start()
    with RawClient(broker.port) as raw:
        create_topic(raw, "old", retention_ms="1")
        assert produce(raw, "old", batch(b"x")).error_code.name == "none"
        time.sleep(_LOOKS * 0.05)
        assert fetch(raw, "old", 0).log_start_offset == 0
    assert broker.stop() == 0
    with closing(sqlite3.connect(tree)) as database, database:
        ended = encode_kept_until(epoch_ms() - 1)
        database.execute("UPDATE nodes SET data = ? WHERE path = ?", (ended, paths.KEPT_UNTIL))
    broker.start()
    try:
        deadline = time.monotonic() + 60
        with RawClient(broker.port) as raw:
            while fetch(raw, "old", 0).log_start_offset == 0:
                assert time.monotonic() < deadline, "retention does not go on"
                time.sleep(0.05)
    finally:
        broker.stop()
