"""What a gateway asks of the broker before partitions are added does not grow with the neighbours."""

from pathlib import Path

import pytest

from broker.app import Broker
from broker.config import BrokerConfig
from contracts.specs import BrokerAddress, ClusterSpec
from gateway.backend import Backend
from runtime.kafka_client import KafkaConnection
from runtime.upstream import Upstreams
from wire.build import build
from wire.codec import request_class

OWN, OTHER = "iaaaaaaaaaaa", "ibbbbbbbbbbb"
_SECRET = "counted"


@pytest.mark.parametrize("may_not_log_in", [False, True])
async def test_an_instance_is_counted_by_its_own_topics(tmp_path: Path, may_not_log_in: bool) -> None:
    broker = Broker(BrokerConfig(node_id=1, cluster_id="c", data_dir=tmp_path, listen_port=0, secret=_SECRET))
    port = await broker.start()
    address = BrokerAddress(node_id=1, host="127.0.0.1", port=port)
    backend = Backend(ClusterSpec(revision=1, cluster_id="c", brokers=(address,)), _SECRET, Upstreams(None))
    try:
        connection = await KafkaConnection.open("127.0.0.1", port, secret=_SECRET)
        topics = [(f"{OWN}.a", 1), (f"{OWN}.b", 3), *((f"{OTHER}.{number}", 1) for number in range(150))]
        wanted = [{"name": name, "num_partitions": count, "replication_factor": -1} for name, count in topics]
        for at in range(0, len(wanted), 50):
            await connection.call(build(request_class(19, 4), {"topics": wanted[at : at + 50]}))
        if may_not_log_in:
            broker.held.hold(OWN)
        before = broker.metrics.bytes_out
        assert await backend.partition_counts(OWN, 0) == {"a": 1, "b": 3}
        told_bytes = broker.metrics.bytes_out - before
        assert (told_bytes > 4_000) == may_not_log_in
    finally:
        backend.close()
        await broker.stop()
