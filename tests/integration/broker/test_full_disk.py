"""A disk that refuses writes: KAFKA_STORAGE_ERROR, nothing acknowledged is lost, and it goes on with space.

The disk is made to refuse by the process's file size limit (EFBIG where a full disk has ENOSPC, short writes
included), which another process may lower and raise again.
"""

import resource

import pytest

from tests.integration.broker.process import running_broker
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce, request
from wire.batch import iterate_batches

_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def test_appends_are_refused_and_go_on_when_there_is_space(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_broker(tmp_path_factory.mktemp("disk"), "--flush-interval-ms", "100") as broker:
        with RawClient(broker.port) as client:
            create_topic(client, "filling")
            records = [batch(b"%d " % number + b"x" * 9_000) for number in range(40)]
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            answers = [produce(client, "filling", each) for each in records[:20]]
            acknowledged = [each.base_offset for each in answers if each.error_code.value == 0]
            refused = [each.error_code.name for each in answers if each.error_code.value != 0]
            assert acknowledged == list(range(len(acknowledged)))
            assert len(acknowledged) >= 5
            assert set(refused) == {"kafka_storage_error"}
            assert _offsets(client) == acknowledged
            assert client.call(request(3, 1, topics=None)).topics, "the rest is served"

            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, _UNLIMITED)
            more = [produce(client, "filling", each) for each in records[20:]]
            assert [each.error_code.value for each in more] == [0] * 20
            expected = list(range(len(acknowledged) + 20))
            assert _offsets(client) == expected
        assert broker.metrics()["portico_broker_storage_errors_total"] >= len(refused)
        broker.kill()
        broker.start()
        with RawClient(broker.port) as client:
            assert _offsets(client) == expected


def _offsets(client: RawClient) -> list[int]:
    found = bytes(fetch(client, "filling", 0, max_bytes=10_000_000).records)
    return [header.base_offset for _, header in iterate_batches(found)]
