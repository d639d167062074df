"""Usage records in messages: what goes in comes out, each once; none is too large for a producer."""

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.usage_batches import (
    COLUMNS,
    OF_RUN,
    RECORDS_MAX,
    OtherVersionError,
    by_message,
    decoded,
    encoded,
)
from contracts.usage_records import COUNT_MAX, USAGE_VERSION, UsageRecord, record_id

_PRODUCERS_BYTES_MAX: Final = 1_000_000


def _record(boot: str, instance: str, number: int, **changes: object) -> UsageRecord:
    values = dict.fromkeys(COLUMNS, number) | {
        "id": record_id(boot, instance, number),
        "point": f"point-of-{boot}",
        "node_id": 1,
        "cluster_id": "",
        "boot_id": boot,
        "counted_since_ms": 1,
        "grid_ms": 60_000,
        "instance_id": instance,
    }
    return UsageRecord(**(values | changes))  # type: ignore[arg-type]


_RECORDS = st.lists(
    st.builds(_record, st.sampled_from("ab"), st.text(min_size=1, max_size=5), st.integers(0, COUNT_MAX))
)


@given(_RECORDS)
def test_what_goes_in_comes_out_each_once(records: Sequence[UsageRecord]) -> None:
    messages = [decoded(encoded(together)) for together in by_message(records)]
    assert len(messages) == len({one.boot_id for one in records})
    for message in messages:
        assert [*message.records()] == [one for one in records if one.boot_id == message.boot_id]


def test_a_message_fits_a_producer_whatever_its_numbers() -> None:
    records = [_record("b" * 36, f"i{number:011}", COUNT_MAX) for number in range(2 * RECORDS_MAX + 1)]
    messages = [encoded(together) for together in by_message(records)]
    assert [len(decoded(each).instance_id) for each in messages] == [RECORDS_MAX, RECORDS_MAX, 1]
    assert len(messages[0]) < _PRODUCERS_BYTES_MAX


def test_another_grid_or_cluster_is_another_message() -> None:
    records = [_record("a", "i", 1), _record("a", "i", 2, grid_ms=1_000), _record("a", "i", 3)]
    assert [len(together) for together in by_message(records)] == [2, 1]
    assert {*OF_RUN, *COLUMNS, "id", "instance_id", "version"} == set(UsageRecord.__struct_fields__)


def test_what_is_no_message_is_refused_with_what_is_wrong() -> None:
    message = msgspec.json.decode(encoded([_record("a", "i", 1)]))
    with pytest.raises(OtherVersionError, match=f"version {USAGE_VERSION} is read here, not 1"):
        decoded(msgspec.json.encode(message | {"version": 1}))
    with pytest.raises(msgspec.ValidationError, match="not of one length"):
        decoded(msgspec.json.encode(message | {"instance_id": ["a", "b"]}))
    columns = {name: one for name, one in message["columns"].items() if name != "refused"}
    with pytest.raises(msgspec.ValidationError, match="or that nobody knows: refused, wrong"):
        decoded(msgspec.json.encode(message | {"columns": columns | {"wrong": [1]}}))
    with pytest.raises(msgspec.ValidationError, match="columns"):
        decoded(msgspec.json.encode(message | {"columns": message["columns"] | {"refused": [-1]}}))
