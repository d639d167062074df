"""Kafka's exactly-once copier of 4.3.1, a Java client of `transaction.version` 2, run for two tenants.

Both have topics, group and transactional id of the same names. It aborts at random, and commits offsets in
its transactions.
"""

import subprocess
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from ctl.kafka.jars import DEFAULT_VERSION, class_path
from tests.integration.broker.raw import RawClient, request
from tests.integration.transactions.clients import TIMEOUT_S, read

_COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
_RECORDS: Final = 600
_SIZE: Final = 30
_RUN_S: Final = 300


def _prepare(name: str, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("source", 1), NewTopic("copy", 3)]).values():
        future.result(TIMEOUT_S)
    source = Producer({"bootstrap.servers": bootstrap})
    for number in range(_RECORDS):
        source.produce("source", f"{name}-{number}".encode())
    assert source.flush(TIMEOUT_S) == 0


def _copying(bootstrap: str) -> subprocess.Popen[str]:
    command = ["java", "-Xmx256m", "-cp", class_path(DEFAULT_VERSION), _COPIER]
    command += ["--broker-list", bootstrap, "--input-topic", "source", "--input-partition", "0"]
    command += ["--output-topic", "copy", "--consumer-group", "copier", "--transactional-id", "copier"]
    command += ["--transaction-size", str(_SIZE), "--max-messages", str(_RECORDS)]
    command += ["--enable-random-aborts", "--group-mode"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _transactions_ended(bootstrap: str) -> int:
    """How often the epoch of the copier was bumped: with each end, in transactions of version 2."""
    with RawClient(int(bootstrap.split(",")[0].rpartition(":")[2])) as raw:
        coordinator = raw.call(request(10, 2, key="copier", key_type=1))
    with RawClient(int(coordinator.port)) as raw:
        (state,) = raw.call(request(65, 0, transactional_ids=["copier"])).transaction_states
    assert state.error_code is ErrorCode.none
    return int(state.producer_epoch)


def copy_beside_each_other(bootstraps: Mapping[str, str]) -> None:
    """Have each tenant, by its name, copy its own records; each gets all of them once, and no other's."""
    for name, bootstrap in bootstraps.items():
        _prepare(name, bootstrap)
    copying = {name: _copying(bootstrap) for name, bootstrap in bootstraps.items()}
    for name, process in copying.items():
        said, _ = process.communicate(timeout=_RUN_S)
        assert process.returncode == 0, (name, said[-2000:])
    for name, bootstrap in bootstraps.items():
        values = read({"bootstrap.servers": bootstrap}, "copy", _RECORDS, partitions=3)
        assert sorted(values) == sorted(f"{name}-{number}" for number in range(_RECORDS))
        ended = _transactions_ended(bootstrap)
        assert ended >= _RECORDS // _SIZE, ended
