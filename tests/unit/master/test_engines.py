"""What a look at a cluster says of instances."""

from master.engines import led_of_instances
from master.kafka_survey import chunks, led_by_node

ONE, TWO = "iaaaaaaaaaaa", "ibbbbbbbbbbb"
PARTITIONS = {f"{ONE}.a": {0: 1, 1: 2, 2: -1}, f"{ONE}.b": {0: 1}, f"{TWO}.a": {0: -1}}


def test_partitions_and_bytes_are_their_leaders() -> None:
    sizes = {(f"{ONE}.a", 0): 5, (f"{ONE}.a", 1): 7, (f"{ONE}.b", 0): 11, (f"{ONE}.c", 0): 13}
    assert led_of_instances(PARTITIONS, sizes) == {ONE: {1: (2, 16), 2: (1, 7)}, TWO: {}}


def test_sizes_are_asked_of_leaders_in_pieces() -> None:
    by_node = led_by_node(PARTITIONS)
    assert by_node[1] == {f"{ONE}.a": [0], f"{ONE}.b": [0]}
    assert list(chunks({"a": [0, 1, 2], "b": [0]}, 2)) == [{"a": [0, 1]}, {"a": [2], "b": [0]}]
    assert list(chunks({}, 2)) == []
