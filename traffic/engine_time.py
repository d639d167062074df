"""What a request is reckoned to cost a broker that tells nobody its request time: an Apache Kafka (ADR 73).

Measured on Apache Kafka 4.3 and rounded up, in us of its threads. It decides which share of an instance's
request time each broker gets; how long threads really took is what the broker's own quota goes by.
"""

from typing import Final, NamedTuple

_KB: Final = 1024


class EngineTime(NamedTuple):
    """Of one request."""

    threads_us: int
    """Of network and request threads: a broker's request quota is of these."""
    coordinator_us: int = 0
    """Of threads behind them, which no quota of the broker sees."""


CONNECT_US: Final = 500
"""To accept a connection, to keep account of it from its first request on, and to forget it. No quota of the
broker sees it."""
_PRODUCE_US: Final = 120
_PRODUCE_US_PER_KB: Final = 2
_FETCH_US: Final = 100
_FETCH_US_PER_KB: Final = 1
_ANSWER_BYTES_PER_US: Final = 10
"""Of answers that are long because there is much to tell: topics, configs, logs."""
_LISTED_US_PER_PARTITION: Final = 7
_USUAL: Final = EngineTime(100)
_COORDINATED: Final = EngineTime(100, 50)
_BY_API: Final = {
    8: _COORDINATED,  # OffsetCommit
    9: _COORDINATED,  # OffsetFetch
    11: _COORDINATED,  # JoinGroup
    12: _COORDINATED,  # Heartbeat
    13: _COORDINATED,  # LeaveGroup
    14: _COORDINATED,  # SyncGroup
    15: _COORDINATED,  # DescribeGroups
    16: _COORDINATED,  # ListGroups
    28: _COORDINATED,  # TxnOffsetCommit
    42: _COORDINATED,  # DeleteGroups
    47: _COORDINATED,  # OffsetDelete
    68: _COORDINATED,  # ConsumerGroupHeartbeat
    69: _COORDINATED,  # ConsumerGroupDescribe
}


def of_request(api_key: int) -> EngineTime:
    """Of a request other than Produce and Fetch, beside its answer."""
    return _BY_API.get(api_key, _USUAL)


def of_answer_us(size_bytes: int) -> int:
    """Threads of a broker, for an answer of this size to such a request."""
    return size_bytes // _ANSWER_BYTES_PER_US


def of_listing_us(partitions: int) -> int:
    """Threads of a broker, for a list of so many partitions by the names of their topics."""
    return _USUAL.threads_us + _LISTED_US_PER_PARTITION * partitions


def of_produce_us(size_bytes: int) -> int:
    """Threads of a broker, for a Produce of this size."""
    return _PRODUCE_US + size_bytes * _PRODUCE_US_PER_KB // _KB


def of_fetch_us(size_bytes: int) -> int:
    """Threads of a broker, for a Fetch with an answer of this size."""
    return _FETCH_US + size_bytes * _FETCH_US_PER_KB // _KB
