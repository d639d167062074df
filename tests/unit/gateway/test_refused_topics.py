"""What is added to answers for topics that went up to no broker."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from contracts.acls import Operation
from gateway.session.call import Call
from gateway.topic_access import with_refused
from wire.api_table import ApiKey
from wire.build import build, entry_class, response
from wire.codec import request_class

VERSION: Final = 10
FAULTS: Final = (ErrorCode.unknown_topic_id, ErrorCode.topic_authorization_failed)


class Counted(tuple[Any, ...]):
    """Each addition copies all that was there."""

    additions = 0

    def __add__(self, other: Any) -> "Counted":
        Counted.additions += 1
        return Counted((*self, *other))


def test_all_are_added_at_once_and_in_their_order() -> None:
    """One by one, thousands would cost their square, and a client may name as many ids as it likes."""
    kind = entry_class(request_class(ApiKey.OFFSET_COMMIT, VERSION), "topics")
    partitions = [{"partition_index": 7, "committed_offset": 1, "committed_metadata": None}]
    refused = [
        (build(kind, {"topic_id": UUID(int=number + 1), "partitions": partitions}), FAULTS[number % 2])
        for number in range(10)
    ]
    call = cast(Call, SimpleNamespace(instance=SimpleNamespace(tells_clients_apart=False)))
    empty: Any = replace(cast(Any, response(ApiKey.OFFSET_COMMIT, VERSION)), topics=Counted())
    answer = with_refused(call, empty, Operation.READ, refused)
    told = [
        (topic.topic_id.int, [(p.partition_index, p.error_code) for p in topic.partitions])
        for topic in answer.topics
    ]
    assert told == [(number + 1, [(7, FAULTS[number % 2])]) for number in range(10)]
    assert Counted.additions == 1
    assert with_refused(call, empty, Operation.READ, []) is empty
