"""Usage records from messages of topic `usage`, each with the reason why it is not taken, if there is one.

DuckDB's SQL, pure: `now_ms` is an argument. A value that lies would bill somebody: what cannot be true is
set aside, and what was carried meanwhile is recovered from the totals of later records.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from contracts.usage_batches import COLUMNS
from contracts.usage_records import COUNT_MAX, INTERVAL_MS_MAX
from pipeline.schema.usage_records import USAGE_RECORD

FUTURE_MS: Final = 5 * 60_000
"""The master's clock may be ahead of ours by so much."""
OLD_MS: Final = 45 * 24 * 3600 * 1000
"""A month that ended so long ago is closed."""
PORT_BYTES_PER_S: Final = 12_500_000_000
"""100 Gbit/s: no point carries more than its network port does."""
LIMIT_TIMES: Final = 10
_NUMBERS: Final = [field.name for field in USAGE_RECORD if field.type == pa.int64()]
_MESSAGE: Final = "kafka_partition, kafka_offset"
PLACE: Final = f"{_MESSAGE}, nth"
"""Of a record: `nth` is within its message."""
_COLUMNS: Final = ", ".join(USAGE_RECORD.names)


def judged(batches: str, now_ms: int) -> str:
    """A record's columns, its PLACE in Kafka, and `reason` and `error`, which are null when it is taken.

    `batches` is as `messages.read` gives them.
    """
    own = ", ".join(f"unnest({name}) as {name}" for name in ("instance_id", *COLUMNS))
    reasons = _faults(now_ms)
    faults = _cases((holds, number) for number, (_, holds, _) in enumerate(reasons))
    return f"""
        with records as (
            select * replace ({own}), unnest(range(len(instance_id))) as nth from {batches}
        ), looked_at as (
            select *, concat_ws('/', boot_id, instance_id, interval_start_ms) as id,
                case {faults} end as fault
            from records
        )
        select {PLACE}, {_COLUMNS},
            case fault {_cases(enumerate(f"'{reason}'" for reason, _, _ in reasons))} end as reason,
            case fault {_cases(enumerate(error for _, _, error in reasons))} end as error
        from looked_at"""


def taken(records: str, *, ingest_batch: int, now_ms: int) -> str:
    """Rows of `usage_raw` from judged records; duplicates are still among them."""
    return f"""
        select {_COLUMNS}, make_timestamp_ms(interval_start_ms) as interval_start, false as recovered,
            {ingest_batch}::bigint as ingest_batch, {now_ms}::bigint as ingested_at_ms, {PLACE},
            make_timestamp_ms(interval_start_ms)::date as day
        from {records} where reason is null"""


def quarantined(
    records: str, messages: str, unreadable: str, *, ingest_batch: int, now_ms: int, new: str
) -> str:
    """Rows of `usage_quarantine`: judged records of messages, as JSON, and messages that nobody can read.

    `new` says of a place whether it is to be among them.
    """
    record = ", ".join(f"{name} := {name}" for name in USAGE_RECORD.names)
    return f"""
        select {_MESSAGE}, kafka_timestamp_ms, key, value, reason, error, id, instance_id, interval_start_ms,
            {ingest_batch}::bigint as ingest_batch, {now_ms}::bigint as ingested_at_ms
        from (
            select {PLACE}, kafka_timestamp_ms, key,
                encode(to_json(struct_pack({record}))::varchar) as value, reason, error, id, instance_id,
                interval_start_ms
            from {records} join (select {_MESSAGE}, kafka_timestamp_ms, key from {messages})
                using ({_MESSAGE})
            where reason is not null
            union all by name select * from {unreadable}
        ) where {new} order by {PLACE}"""


def _faults(now_ms: int) -> list[tuple[str, str, str]]:
    """Reason, when it holds, and the sentence; the first that holds counts. Earlier ones guard later ones."""
    return [
        ("overflow", f"greatest({', '.join(_NUMBERS)}) > {COUNT_MAX}", "'a number is above 2^62'"),
        (
            "impossible",
            f"interval_ms not between 1 and {INTERVAL_MS_MAX}",
            "'an interval of milliseconds: ' || interval_ms",
        ),
        (
            "clock",
            f"interval_start_ms + interval_ms > {now_ms + FUTURE_MS}",
            f"'the interval ends more than {FUTURE_MS // 60_000} minutes ahead of this machine''s clock'",
        ),
        (
            "clock",
            f"interval_start_ms < {now_ms - OLD_MS}",
            f"'the interval began more than {OLD_MS // 86_400_000} days ago'",
        ),
        *(_impossible_bytes(direction) for direction in ("produce", "consume")),
    ]


def bytes_per_s_max(direction: str) -> str:
    """What nobody exceeds: ten times the limit, and what a port carries where that is more."""
    return f"greatest({float(PORT_BYTES_PER_S)}, {LIMIT_TIMES} * {direction}_limit_bytes_per_s::double)"


def _impossible_bytes(direction: str) -> tuple[str, str, str]:
    """More bytes than were ever counted, or faster than ten times the limit and than any port."""
    used = f"{direction}_bytes"
    return (
        "impossible",
        f"{used} > {used}_total or {used} * 1000.0::double / interval_ms > {bytes_per_s_max(direction)}",
        f"'{used} of one interval: ' || {used}",
    )


def _cases(of: Iterable[tuple[object, object]]) -> str:
    return " ".join(f"when {when} then {then}" for when, then in of)
