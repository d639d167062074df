"""Lag in seconds on the built-in broker: the truth, and what one look may cost."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import lag_truth
from tests.integration.stack import Stack


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    """An instance of its own for each test."""
    made = stack.create_instance(f"lag-{uuid.uuid4().hex[:8]}")
    yield made
    stack.api("DELETE", f"instances/{made['id']}")


def test_seconds_are_those_of_the_first_record_not_consumed(stack: Stack, instance: dict[str, Any]) -> None:
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 1})
    log, end = lag_truth.mixed_log(instance, "orders")
    [partition] = stack.api("GET", f"instances/{instance['id']}/topics/orders")["partitions"]
    assert partition["high_watermark"] == end
    lag_truth.check(stack, instance, log, end)
    listed = stack.api("GET", f"instances/{instance['id']}/groups")["items"]
    for one in listed:
        time_ms = log.time_ms(int(one["group"].removeprefix("at-")))
        age_s = 0 if time_ms is None else time.time() - time_ms / 1000
        assert one["lag_seconds"] is not None and one["lag_seconds"] <= age_s
        assert (one["lag_seconds"] == 0) == (time_ms is None)


def test_what_was_deleted_is_behind_nobody(stack: Stack, instance: dict[str, Any]) -> None:
    path = f"instances/{instance['id']}/topics"
    stack.api("POST", path, {"name": "orders", "partitions": 1})
    log = lag_truth.KnownLog(instance, "orders")
    log.write([3_000_000, 2_000_000, 1_000_000])
    lag_truth.commit(instance, "g", "orders", 0)
    assert lag_truth.told(stack, instance, "g")[0]["lag_seconds"] >= 3_000
    stack.api("POST", f"{path}/orders/delete-records", {"partitions": [{"partition": 0, "before_offset": 2}]})
    assert 1_000 <= lag_truth.told(stack, instance, "g")[0]["lag_seconds"] < 2_000
    stack.api("DELETE", f"{path}/orders")


def test_an_open_transaction_is_told_until_it_is_aborted(stack: Stack, instance: dict[str, Any]) -> None:
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": "orders", "partitions": 1})
    log = lag_truth.KnownLog(instance, "orders")
    log.write([600_000, 500_000], "lz4", **{"enable.idempotence": True})
    lag_truth.commit(instance, "g", "orders", 2)
    assert lag_truth.told(stack, instance, "g")[0]["lag_seconds"] == 0
    with log.open_transaction([400_000, 300_000]) as producer:
        assert 400 <= lag_truth.told(stack, instance, "g")[0]["lag_seconds"] < 500
        producer.abort_transaction(30)
    lag_truth.until(lambda: lag_truth.told(stack, instance, "g")[0]["lag_seconds"] == 0)
