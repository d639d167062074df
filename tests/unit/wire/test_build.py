"""Messages are built of what is known; a misspelt field is an error, never a zero."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.requests.apis import APIS as BROKER
from gateway.apis import LEGACY, SERVED
from wire.api_table import ApiKey
from wire.build import UnknownField, build, names_of, response, response_shape
from wire.codec import request_class, response_class

VERSIONS = sorted(
    {*SERVED, *LEGACY}
    | {
        (key, version)
        for key, row in BROKER.items()
        if not row.is_ours
        for version in range(row.versions.lowest, row.versions.highest + 1)
    }
)


@pytest.mark.parametrize("api_key", sorted({key for key, _ in VERSIONS}), ids=lambda key: ApiKey(key).name)
def test_a_field_of_one_version_is_left_out_in_others_and_one_of_none_refused(api_key: int) -> None:
    versions = [version for key, version in VERSIONS if key == api_key]
    for class_of in (request_class, response_class):
        names = frozenset[str]().union(*(names_of(class_of(api_key, version)) for version in versions))
        for version in versions:
            message_class = class_of(api_key, version)
            empty = build(message_class, {})
            elsewhere = names - names_of(message_class)
            assert build(message_class, dict.fromkeys(elsewhere, 1)) == empty
            with pytest.raises(UnknownField, match="eror_code"):
                build(message_class, {"eror_code": 1})


def test_nested_names_are_held_to_the_same() -> None:
    topic = {"name": "t", "partition_responses": [{"index": 1, "log_start_ofset": 7}]}
    with pytest.raises(UnknownField, match="log_start_ofset"):
        response(ApiKey.PRODUCE, 3, responses=[topic])
    topic["partition_responses"] = [{"index": 1, "log_start_offset": 7}]
    for version in (0, 3, 8):  # the field came with version 5
        answer: Any = response(ApiKey.PRODUCE, version, responses=[topic])
        (built,) = answer.responses
        assert getattr(built.partition_responses[0], "log_start_offset", None) == (7 if version > 4 else None)


def test_a_shape_wants_every_field_of_its_version() -> None:
    shape = response_shape(ApiKey.HEARTBEAT, 4)
    with pytest.raises(TypeError, match="throttle_time"):
        shape.make(error_code=ErrorCode.none)
    with pytest.raises(UnknownField, match=r"throttle_tim\b"):
        shape.make(error_code=ErrorCode.none, throttle_tim=1)
    assert not response_shape(ApiKey.LEAVE_GROUP, 2).has("MemberResponse")
    with pytest.raises(KeyError):
        response_shape(ApiKey.LEAVE_GROUP, 2).nested("MemberResponse", member_id="m")
