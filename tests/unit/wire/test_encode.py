"""The compiled encoders write what kio's own writers write, for every message of kio."""

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from tests.unit.wire.messages import SERVED, messages
from wire import codec
from wire.schema import payload_apis, versions_of

APIS = {api: key for key, api in payload_apis().items()}


def by_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_bytes_are_kios(api: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of(api)))
    message = data.draw(messages(codec.payload_class(APIS[api], version, response=data.draw(st.booleans()))))
    encoded = codec.encode(message)
    assert encoded == by_kio(message)
    if api in SERVED:
        assert codec.decode(type(message), encoded) == message


def test_long_strings_and_lists_in_compact_form() -> None:
    cls = codec.request_class(20, 4)
    message = cls(
        topic_names=tuple("x" * at for at in (126, 127, 128, 32767)) * 50, timeout=codec.duration(1)
    )
    assert codec.encode(message) == by_kio(message)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("size", [0, 1, 16, 17, 126, 127, 300])
def test_lists_of_numbers(version: int, size: int) -> None:
    cls = codec.response_class(3, version)
    topic_class = cls.__dataclass_fields__["topics"].type.__args__[0]
    partition_class = topic_class.__dataclass_fields__["partitions"].type.__args__[0]
    partition = partition_class(
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=1,
        replica_nodes=tuple(range(size)),
        isr_nodes=(),
        offline_replicas=(),
    )
    message = topic_class(error_code=ErrorCode.none, name="a", partitions=(partition,))
    assert codec.encode(message) == by_kio(message)


@pytest.mark.parametrize("version", [3, 4])
def test_a_string_beyond_kafkas_limit_is_an_error(version: int) -> None:
    message = codec.request_class(20, version)(topic_names=("x" * 32768,), timeout=codec.duration(1))
    with pytest.raises(ValueError, match="32768"):
        codec.encode(message)
