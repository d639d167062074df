"""A month of made-up usage for the demo's instance, so that bills and forecasts have a past to tell of.

Sent to a topic `usage` of the demo's own instance, as the quota master sends what it counts to that of the
system; the boot id says that it is made up.
"""

import math
from collections.abc import Iterator
from random import Random
from typing import Final

from confluent_kafka import Producer

from contracts.usage_batches import by_message, encoded
from contracts.usage_records import INTERVAL_MS_MAX, USAGE_TOPIC, UsageRecord, record_id
from ctl.errors import CommandError

DAYS: Final = 36
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_WEEKEND: Final = 0.45
_FLUSH_S: Final = 30.0


def usage_history(instance_id: str, limits: tuple[int, int, int], until_ms: int) -> Iterator[UsageRecord]:
    """Five-minute records of the 36 days before: a day curve, quiet weekends, growth, storage filling up.

    `limits` are produce and consume bytes/s and the capacity in bytes.
    """
    produce_limit, consume_limit, capacity = limits
    end_ms = until_ms - until_ms % INTERVAL_MS_MAX
    begin_ms = end_ms - DAYS * _DAY_MS
    random = Random(instance_id)
    boot_id = f"made-up-by-demo-{instance_id}"
    produced = consumed = 0
    for start_ms in range(begin_ms, end_ms, INTERVAL_MS_MAX):
        age = (start_ms - begin_ms) / (end_ms - begin_ms)
        produce_rate = int(
            produce_limit * _activity(start_ms) * (0.4 + 0.25 * age) * random.uniform(0.85, 1.15)
        )
        consume_rate = min(2 * produce_rate, consume_limit)
        produce, consume = (rate * INTERVAL_MS_MAX // 1000 for rate in (produce_rate, consume_rate))
        stored = int(capacity * (0.15 + 0.6 * age))
        produced, consumed = produced + produce, consumed + consume
        yield UsageRecord(
            id=record_id(boot_id, instance_id, start_ms),
            point="made-up",
            node_id=1,
            cluster_id="made-up",
            boot_id=boot_id,
            counted_since_ms=begin_ms,
            instance_id=instance_id,
            interval_start_ms=start_ms,
            interval_ms=INTERVAL_MS_MAX,
            grid_ms=INTERVAL_MS_MAX,
            produce_bytes=produce,
            consume_bytes=consume,
            produce_bytes_total=produced,
            consume_bytes_total=consumed,
            produce_requests=produce // 65_536,
            consume_requests=consume // 262_144,
            produce_throttled_ms=0,
            consume_throttled_ms=0,
            refused=0,
            stored_bytes=stored,
            stored_byte_ms=stored * INTERVAL_MS_MAX,
            produce_peak_bytes_per_s=produce_rate + produce_rate // 8,
            consume_peak_bytes_per_s=consume_rate + consume_rate // 8,
            produce_rate_bytes_per_s=produce_limit,
            consume_rate_bytes_per_s=consume_limit,
            produce_limit_bytes_per_s=produce_limit,
            consume_limit_bytes_per_s=consume_limit,
            capacity_bytes=capacity,
            partitions_led=15,
            blocked_ms=0,
            sent_at_ms=start_ms + INTERVAL_MS_MAX,
        )


def _activity(at_ms: int) -> float:
    """0 to 1: most in the early afternoon, little at night, less at weekends."""
    hour = at_ms % _DAY_MS / _HOUR_MS
    weekday = (at_ms // _DAY_MS + 3) % 7  # the epoch began on a Thursday
    curve = 0.55 - 0.45 * math.cos((hour - 2) / 24 * 2 * math.pi)
    return curve * (_WEEKEND if weekday >= 5 else 1.0)


def send_history(bootstrap_servers: str, records: Iterator[UsageRecord]) -> int:
    """Send records to an instance; returns how many. Raises: CommandError."""
    faults: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
    )
    count = 0
    for together in by_message(records):
        producer.produce(
            USAGE_TOPIC,
            encoded(together),
            together[0].point,
            on_delivery=lambda error, _: faults.append(error.str()) if error is not None else None,
        )
        producer.poll(0)
        count += len(together)
    left = producer.flush(_FLUSH_S)
    if faults or left:
        raise CommandError(
            f"topic {USAGE_TOPIC} did not take the history: {faults[0] if faults else 'no answer'}"
        )
    return count
