"""Every API of the table, lowest and highest version, is answered on the wire; others are refused."""

import datetime
import struct
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta

from broker.requests.apis import APIS
from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch_by_id,
    fetch_request,
    produce,
    request,
    topic_id_of,
)
from tests.unit.wire.malformed import batch_of, record
from wire.api_table import ApiKey
from wire.batch import CODEC_ZSTD
from wire.codec import decode_response

_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=5))
_TOPIC = "versions"
_ASKED: dict[ApiKey, dict[str, Any]] = {
    ApiKey.LIST_OFFSETS: {
        "replica_id": -1,
        "isolation_level": 0,
        "timeout": _TIMEOUT,
        "topics": [
            {
                "name": _TOPIC,
                "partitions": [
                    {
                        "partition_index": 0,
                        "current_leader_epoch": -1,
                        "timestamp": -1,
                        "max_num_offsets": 1,
                    }
                ],
            }
        ],
    },
    ApiKey.METADATA: {
        "topics": [{"topic_id": None, "name": _TOPIC}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    },
    ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    ApiKey.API_VERSIONS: {"client_software_name": "raw", "client_software_version": "1"},
    ApiKey.CREATE_TOPICS: {"topics": [], "timeout": _TIMEOUT, "validate_only": False},
    ApiKey.DELETE_TOPICS: {"topic_names": [], "topics": [], "timeout": _TIMEOUT},
    ApiKey.DELETE_RECORDS: {
        "topics": [{"name": _TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
        "timeout": _TIMEOUT,
    },
    ApiKey.INIT_PRODUCER_ID: {
        "transactional_id": None,
        "transaction_timeout": _TIMEOUT,
        "producer_id": -1,
        "producer_epoch": -1,
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "replica_id": -2,
        "topics": [
            {
                "topic": _TOPIC,
                "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
            }
        ],
    },
    ApiKey.DESCRIBE_CONFIGS: {
        "resources": [{"resource_type": 2, "resource_name": _TOPIC, "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": True,
    },
    ApiKey.ALTER_CONFIGS: {"resources": [], "validate_only": True},
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": None},
    ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"\0portico\0wrong"},
    ApiKey.CREATE_PARTITIONS: {"topics": [], "timeout": _TIMEOUT, "validate_only": True},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": [], "validate_only": True},
    ApiKey.ELECT_LEADERS: {"election_type": 0, "topic_partitions": None, "timeout": _TIMEOUT},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"timeout": _TIMEOUT, "topics": []},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"timeout": _TIMEOUT, "topics": None},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": (2, 4, 32)},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
        "topics": [{"name": _TOPIC}],
        "response_partition_limit": 1,
        "cursor": {"topic_name": "a", "partition_index": 0},
    },
    ApiKey.DESCRIBE_CLUSTER: {"include_cluster_authorized_operations": True, "endpoint_type": 1},
}


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    with RawClient(broker.port) as client:
        create_topic(client, _TOPIC, 2)
    return _TOPIC


def _cases() -> list[tuple[ApiKey, int]]:
    return [
        (key, version)
        for key in _ASKED
        for version in range(APIS[key].versions.lowest, APIS[key].versions.highest + 1)
    ]


@pytest.mark.parametrize(("key", "version"), _cases())
def test_every_version_is_answered(raw: RawClient, topic: str, key: ApiKey, version: int) -> None:
    raw.call(request(key, version, **_ASKED[key]))  # raises when the answer does not decode to its end


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_is_answered(raw: RawClient, topic: str, version: int) -> None:
    answer = produce(raw, topic, batch(b"one", b"two"), partition=1, version=version)
    assert answer.error_code.value == 0
    assert answer.base_offset % 2 == 0


@pytest.mark.parametrize(("version", "error_code"), [(3, 76), (6, 76), (7, 0)])
def test_zstd_is_refused_before_the_version_that_has_it(
    raw: RawClient, topic: str, version: int, error_code: int
) -> None:
    records = batch_of(record(0), 1, codec=CODEC_ZSTD)
    assert produce(raw, topic, records, version=version).error_code.value == error_code


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_of_fetch_is_answered(raw: RawClient, topic: str, version: int) -> None:
    produce(raw, topic, batch(b"one"))
    answer = raw.call(fetch_request(topic, 0, version=version))
    (partition,) = answer.responses[0].partitions
    assert partition.error_code.value == 0
    assert partition.high_watermark > 0
    assert len(partition.records) > 61


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_of_fetch_by_id_is_answered(raw: RawClient, topic: str, version: int) -> None:
    produce(raw, topic, batch(b"one"))
    topic_id = topic_id_of(raw, topic)
    (answer,) = raw.call(fetch_by_id(version, topic_id)).responses
    (partition,) = answer.partitions
    assert (answer.topic_id, partition.error_code.value) == (topic_id, 0)
    assert partition.high_watermark > 0
    assert len(partition.records) > 61


def test_api_versions_answers_the_table(raw: RawClient) -> None:
    answer = raw.call(request(18, 4, client_software_name="raw", client_software_version="1"))
    found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert found == {
        int(key): (api.versions.advertised_min, api.versions.highest)
        for key, api in APIS.items()
        if not api.is_ours
    }
    finalized = [(each.name, each.max_version_level) for each in answer.finalized_features]
    assert finalized == [("group.version", 1), ("transaction.version", 2)]
    assert [(each.name, each.min_version) for each in answer.supported_features] == [
        (name, 0) for name, _ in finalized
    ]
    assert not {4, 5, 6, 7} & found.keys(), "what brokers tell each other is nobody else's business"
    assert found[0] == (0, 13), "librdkafka turns compression off without Produce v0 (KAFKA-18659)"
    assert found[11][0] == 0, "librdkafka gates Kerberos on JoinGroup v0 (KAFKA-19444)"


@pytest.mark.parametrize("version", [5, 99, -1])
def test_unknown_api_versions_version_gets_the_v0_body_and_error_35(raw: RawClient, version: int) -> None:
    raw.send_frame(18, version, b"\xff\xff nonsense")
    _, answer = decode_response(raw.receive_frame(), 18, 0)
    assert answer.error_code.value == 35
    assert len(answer.api_keys) == sum(not api.is_ours for api in APIS.values())
    assert raw.call(request(18, 0)).error_code.value == 0, "the connection goes on"


@pytest.mark.parametrize(
    ("api_key", "version", "cause"),
    [(0, 14, "unsupported_version"), (1, 19, "unsupported_version"), (71, 0, "unknown_api"),
     (-5, 0, "unknown_api"), (4, 0, "unknown_api"), (7, 0, "unknown_api")],
)  # fmt: skip
def test_what_the_table_does_not_name_closes_the_connection(
    broker: BrokerProcess, raw: RawClient, api_key: int, version: int, cause: str
) -> None:
    before = broker.closed_by(cause)
    raw.send_frame(api_key, version, struct.pack(">i", 0))
    assert raw.is_closed()
    assert broker.closed_by(cause) == before + 1
