"""What a look at a cluster says of instances."""

from kio.schema.alter_client_quotas.v0.request import AlterClientQuotasRequest

from master.engines import led_of_instances
from master.kafka_survey import altered, chunks, led_by_node
from master.quota.client_quotas import Change, Entity, Rates
from wire.codec import decode, encode

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


def test_quotas_are_told_in_the_clusters_units() -> None:
    """Bytes per second, and percent of one thread."""
    set_ = altered(None, Change(Entity(ONE, 3), Rates(1_000, 2_000, 125_000)))
    removed = altered("portico", Change(Entity(ONE, 3), None))
    request = AlterClientQuotasRequest(entries=(set_, removed), validate_only=False)
    first, second = decode(AlterClientQuotasRequest, encode(request), 0).entries
    assert {one.key: float(one.value) for one in first.ops} == {
        "producer_byte_rate": 1_000.0,
        "consumer_byte_rate": 2_000.0,
        "request_percentage": 12.5,
    }
    assert [one.entity_name for one in first.entity] == [None, f"{ONE}@3"]
    assert all(one.remove for one in second.ops) and second.entity[0].entity_name == "portico"
