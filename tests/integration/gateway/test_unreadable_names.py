"""Names that are not UTF-8 are answered, as Kafka answers them, and neither close a connection nor meet."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ctl.bench.one_loop import Pair, running_pair
from tests.scenarios.harness import FrameClient
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import decode_response, duration, framed_request, request_class

MARK = "unreadable"
BYTES = b"un\xff\xfe\x80able"
"""As long as the mark, which it takes the place of in a frame."""
OTHER = b"un\xff\xfe\x81able"
SHOWN = "un\ufffdff\ufffdfe\ufffd80able"

UNKNOWN = ErrorCode.unknown_topic_or_partition
INVALID = ErrorCode.invalid_topic_exception


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, 3) as running:
        yield running


async def ask(client: FrameClient, request: Any, raw: bytes = BYTES, *, times: int = 1) -> Any:
    frame = framed_request(request, 7, "c")
    assert frame.count(MARK.encode()) == times and len(raw) == len(MARK) - 1
    # One byte shorter: pad to keep every length in the frame as it is.
    client.writer.write(frame.replace(MARK.encode(), raw + b"\xfd"))
    _, answer = decode_response(await client.frame(), request.__api_key__, request.__version__)
    return answer


def request(key: ApiKey, version: int, /, **known: Any) -> Any:
    return build(request_class(key, version), known)


TOPIC = {"name": MARK, "partitions": [{"partition_index": 0}]}
CASES: dict[str, tuple[Any, Any, ErrorCode]] = {
    "METADATA 1": (
        request(ApiKey.METADATA, 1, topics=[{"name": MARK}]),
        lambda answer: answer.topics[0].error_code,
        INVALID,
    ),
    "METADATA 9": (
        request(ApiKey.METADATA, 9, topics=[{"name": MARK}]),
        lambda answer: answer.topics[0].error_code,
        INVALID,
    ),
    "LIST_OFFSETS": (
        request(ApiKey.LIST_OFFSETS, 6, replica_id=-1, topics=[TOPIC]),
        lambda answer: answer.topics[0].partitions[0].error_code,
        UNKNOWN,
    ),
    "PRODUCE": (
        request(ApiKey.PRODUCE, 7, acks=-1, topic_data=[{"name": MARK, "partition_data": [{"index": 0}]}]),
        lambda answer: answer.responses[0].partition_responses[0].error_code,
        UNKNOWN,
    ),
    "FETCH": (
        request(
            ApiKey.FETCH,
            11,
            replica_id=-1,
            session_epoch=-1,
            max_bytes=1000,
            topics=[{"topic": MARK, "partitions": [{"partition": 0}]}],
        ),
        lambda answer: answer.responses[0].partitions[0].error_code,
        UNKNOWN,
    ),
    "CREATE_TOPICS": (
        request(
            ApiKey.CREATE_TOPICS,
            5,
            timeout=duration(5000),
            topics=[{"name": MARK, "num_partitions": 1, "replication_factor": -1}],
        ),
        lambda answer: answer.topics[0].error_code,
        INVALID,
    ),
    "DELETE_TOPICS": (
        request(ApiKey.DELETE_TOPICS, 4, timeout=duration(5000), topic_names=[MARK]),
        lambda answer: answer.responses[0].error_code,
        UNKNOWN,
    ),
    "DELETE_RECORDS": (
        request(ApiKey.DELETE_RECORDS, 2, timeout=duration(5000), topics=[TOPIC]),
        lambda answer: answer.topics[0].partitions[0].error_code,
        UNKNOWN,
    ),
    "OFFSET_FOR_LEADER_EPOCH": (
        request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[{"topic": MARK, "partitions": [{"partition": 0}]}],
        ),
        lambda answer: answer.topics[0].partitions[0].error_code,
        UNKNOWN,
    ),
    "CREATE_PARTITIONS": (
        request(
            ApiKey.CREATE_PARTITIONS,
            2,
            timeout=duration(5000),
            topics=[{"name": MARK, "count": 2, "assignments": None}],
        ),
        lambda answer: answer.results[0].error_code,
        UNKNOWN,
    ),
    "DESCRIBE_CONFIGS": (
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{"resource_type": 2, "resource_name": MARK, "configuration_keys": None}],
        ),
        lambda answer: answer.results[0].error_code,
        UNKNOWN,
    ),
    "OFFSET_COMMIT": (
        request(ApiKey.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, topics=[TOPIC]),
        lambda answer: answer.topics[0].partitions[0].error_code,
        UNKNOWN,
    ),
    "FIND_COORDINATOR": (
        request(ApiKey.FIND_COORDINATOR, 3, key=MARK, key_type=0),
        lambda answer: answer.error_code,
        ErrorCode.invalid_group_id,
    ),
    "HEARTBEAT": (
        request(ApiKey.HEARTBEAT, 4, group_id=MARK, generation_id=1, member_id="m"),
        lambda answer: answer.error_code,
        ErrorCode.invalid_group_id,
    ),
    "member of HEARTBEAT": (
        request(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id=MARK),
        lambda answer: answer.error_code,
        ErrorCode.unknown_member_id,
    ),
    "END_TXN": (
        request(ApiKey.END_TXN, 3, transactional_id=MARK, producer_id=1, committed=True),
        lambda answer: answer.error_code,
        ErrorCode.invalid_request,
    ),
}


async def test_every_api_answers_about_a_name_it_cannot_read(pair: Pair) -> None:
    client = await FrameClient.connect(pair.port)
    answered = {name: told(await ask(client, asked)) for name, (asked, told, _) in CASES.items()}
    assert answered == {name: error_code for name, (_, _, error_code) in CASES.items()}
    served = pair.gateway.worker.served["iaaaaaaaaaaa"]
    assert not served.closed and len(served.connections) == 1, "one connection, which goes on"
    whole = await client.call(request(ApiKey.METADATA, 1, topics=None))
    assert {topic.name for topic in whole.topics} == set(pair.topics)


async def test_two_names_stay_two(pair: Pair) -> None:
    """In Java both would be the same three replacement characters."""
    client = await FrameClient.connect(pair.port)
    asked = request(ApiKey.METADATA, 9, topics=[{"name": MARK}])
    one, other = [(await ask(client, asked, raw)).topics[0].name for raw in (BYTES, OTHER)]
    assert one != other and one.startswith(SHOWN[:-4])


async def test_an_id_of_a_client_and_of_an_instance_member_that_nobody_can_read(pair: Pair) -> None:
    client = await FrameClient.connect(pair.port)
    frame = framed_request(request(ApiKey.METADATA, 9, topics=None), 7, MARK)
    client.writer.write(frame.replace(MARK.encode(), BYTES + b"\xfd"))
    _, answer = decode_response(await client.frame(), ApiKey.METADATA, 9)
    assert len(answer.topics) == len(pair.topics)
    # A static member's id is state, and has no empty form that would be refused: such a request is malformed.
    heartbeat = request(ApiKey.HEARTBEAT, 4, group_id="g", member_id="m", group_instance_id=MARK)
    client.writer.write(framed_request(heartbeat, 8, "c").replace(MARK.encode(), BYTES + b"\xfd"))
    assert await client.ended()
    await asyncio.sleep(0)
    assert dict(pair.gateway.worker.served["iaaaaaaaaaaa"].closed) == {"malformed_request": 1}
