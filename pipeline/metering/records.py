"""From bytes on topic `usage` to records, each with the reason why it is not taken, if there is one.

DuckDB's SQL, pure: `now_ms` is an argument. A value that lies would bill somebody: what cannot be true is
set aside with its bytes, and what was carried meanwhile is recovered from the totals of later records.
"""

import json
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from contracts.usage_records import INTERVAL_MS_MAX, INTERVAL_MS_MIN, USAGE_VERSION
from pipeline.schema.usage_records import USAGE_RECORD

FUTURE_MS: Final = 5 * 60_000
"""The master's clock may be ahead of ours by so much."""
OLD_MS: Final = 45 * 24 * 3600 * 1000
"""A month that ended so long ago is closed."""
PORT_BYTES_PER_S: Final = 12_500_000_000
"""100 Gbit/s: no point carries more than its network port does."""
LIMIT_TIMES: Final = 10
NUMBER_MAX: Final = 2**62
TEXT_LENGTH_MAX: Final = 200
_NUMBERS: Final = [field.name for field in USAGE_RECORD if field.type == pa.int64()]
_TEXTS: Final = [field.name for field in USAGE_RECORD if field.type == pa.string()]
_PLACE: Final = "kafka_partition, kafka_offset"
_COLUMNS: Final = ", ".join(USAGE_RECORD.names)


def judged(messages: str, now_ms: int) -> str:
    """A record's columns, its place in Kafka, and `reason` and `error`, which are null when it is taken.

    `messages` has kafka_partition, kafka_offset and value, as bytes.
    """
    kinds = dict.fromkeys(_NUMBERS, "BIGINT") | dict.fromkeys(_TEXTS, "VARCHAR")
    reasons = _faults(now_ms)
    faults = _cases((holds, number) for number, (_, holds, _) in enumerate(reasons))
    return f"""
        with texts as (
            select {_PLACE}, try(decode(value)) as text from {messages}
        ), parsed as (
            select {_PLACE}, unnest(try(json_transform(text, '{json.dumps(kinds)}'))),
                try(json_type(text, {_paths(_NUMBERS)})) as number_kinds,
                try(json_type(text, {_paths(_TEXTS)})) as text_kinds
            from texts
        ), looked_at as (
            select *, case {faults} end as fault from parsed
        )
        select {_PLACE}, {_COLUMNS},
            case fault {_cases(enumerate(f"'{reason}'" for reason, _, _ in reasons))} end as reason,
            case fault {_cases(enumerate(error for _, _, error in reasons))} end as error
        from looked_at"""


def taken(records: str, *, ingest_batch: int, now_ms: int) -> str:
    """Rows of `usage_raw` from judged records; duplicates are still among them."""
    return f"""
        select {_COLUMNS}, make_timestamp_ms(interval_start_ms) as interval_start, false as recovered,
            {ingest_batch}::bigint as ingest_batch, {now_ms}::bigint as ingested_at_ms, {_PLACE},
            make_timestamp_ms(interval_start_ms)::date as day
        from {records} where reason is null"""


def quarantined(records: str, messages: str, *, ingest_batch: int, now_ms: int) -> str:
    """Rows of `usage_quarantine` from judged records and the messages that they were."""
    said = f"(select *, try_cast(try(decode(value)) as json) as text from {messages})"
    return f"""
        select {_PLACE}, kafka_timestamp_ms, key, value, reason, error,
            case json_type(text, '$.id') when 'VARCHAR' then id end as id,
            case json_type(text, '$.instance_id') when 'VARCHAR' then instance_id end as instance_id,
            case when json_type(text, '$.interval_start_ms') in ('UBIGINT', 'BIGINT')
                then interval_start_ms end as interval_start_ms,
            {ingest_batch}::bigint as ingest_batch, {now_ms}::bigint as ingested_at_ms
        from {records} join {said} using ({_PLACE})
        where reason is not null order by {_PLACE}"""


def _faults(now_ms: int) -> list[tuple[str, str, str]]:
    """Reason, when it holds, and the sentence; the first that holds counts. Earlier ones guard later ones.

    What is converted must have been of the type that it became: DuckDB makes a number of a text, too.
    """
    known = ", ".join(f"{name} is null" for name in (*_NUMBERS, *_TEXTS)).replace(", ", " or ")
    kinds_differ = (
        "not coalesce(list_has_all(['UBIGINT', 'BIGINT'], number_kinds) and "
        "list_has_all(['VARCHAR'], text_kinds), false)"
    )
    wrong = [
        *(
            f"if({name} is null or coalesce(number_kinds[{index}] not in ('UBIGINT', 'BIGINT'), true), "
            f"'{name}', null)"
            for index, name in enumerate(_NUMBERS, 1)
        ),
        *(
            f"if({name} is null or coalesce(text_kinds[{index}] <> 'VARCHAR', true), '{name}', null)"
            for index, name in enumerate(_TEXTS, 1)
        ),
    ]
    lengths = ", ".join(f"length({name})" for name in _TEXTS)
    numbers = ", ".join(_NUMBERS)
    is_interval = (
        f"interval_ms between 1 and {INTERVAL_MS_MAX} and "
        f"grid_ms between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX}"
    )
    return [
        (
            "schema",
            f"{known} or {kinds_differ}",
            f"'missing, of another type or too large: ' || concat_ws(', ', {', '.join(wrong)})",
        ),
        (
            "version",
            f"version <> {USAGE_VERSION}",
            f"'this ingest reads version {USAGE_VERSION}, not ' || version",
        ),
        (
            "schema",
            f"least({lengths}) < 1 or greatest({lengths}) > {TEXT_LENGTH_MAX} or "
            "id <> concat_ws('/', boot_id, instance_id, interval_start_ms)",
            "'id is not boot_id/instance_id/interval_start_ms, or a text is empty or too long'",
        ),
        ("negative", f"least({numbers}) < 0", "'a number is below zero'"),
        ("overflow", f"greatest({numbers}) > {NUMBER_MAX}", "'a number is above 2^62'"),
        ("impossible", f"not ({is_interval})", "'an interval of milliseconds: ' || interval_ms"),
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


def _paths(names: Iterable[str]) -> str:
    return str([f"$.{name}" for name in names])
