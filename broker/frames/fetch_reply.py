"""The frame that answers a Fetch, of parts that leave by sendmsg and sendfile. What to answer is decided
before."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.log.results import LogSlice
from broker.log.txn_index import AbortedTransaction
from broker.requests.call import ReplyPart
from wire.hot import fetch as fetch_wire
from wire.hot.fetch import FetchPartition, TopicKey

_COPIED_BYTES_MAX: Final = 256 * 1024
"""Of one answer: a client that does not read it must not hold much memory."""


class PartitionRead(NamedTuple):
    """What one partition gives."""

    wanted: FetchPartition
    error_code: int
    instance_id: str | None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: LogSlice | bytes | None = None
    """Bytes: converted for an old client."""
    aborted: Sequence[AbortedTransaction] | None = None
    """With records in `records`, for read_committed; None for read_uncommitted."""

    @property
    def records_bytes(self) -> int:
        """The size of the records."""
        if isinstance(self.records, LogSlice):
            return self.records.size_bytes
        return 0 if self.records is None else len(self.records)


class FetchReply:
    """An answer being built. Raises: OSError, from its constructor, when records cannot be read."""

    __slots__ = ("_parts", "_version", "body_bytes", "names")

    def __init__(
        self,
        api_version: int,
        reads: Sequence[PartitionRead],
        *,
        sendfile_bytes_min: int,
    ) -> None:
        self._version = api_version
        topics: dict[TopicKey, list[PartitionRead]] = {}
        for read in reads:
            topics.setdefault(read.wanted.topic_key, []).append(read)
        packed_count, topic_head, end = fetch_wire.form_of(api_version)
        parts: list[bytes | LogSlice] = [b"", packed_count(len(topics))]
        copied = 0
        for topic, partitions in topics.items():
            parts.append(topic_head(topic, len(partitions)))
            for read in partitions:
                head = _partition_head(api_version, read)
                part = read.records
                if part is None:
                    parts.append(head + end)
                    continue
                parts.append(head)
                small = read.records_bytes < sendfile_bytes_min and copied < _COPIED_BYTES_MAX
                if small and isinstance(part, LogSlice):
                    part = _content(part)
                    copied += len(part)
                parts.append(part)
                if end:
                    parts.append(end)
            if end:
                parts.append(end)
        if end:
            parts.append(end)
        self._parts = parts
        self.names = len(topics) if api_version < fetch_wire.BY_ID_FROM else 0
        """How many names of topics it has."""
        self.body_bytes = fetch_wire.RESPONSE_HEAD_BYTES[api_version] + sum(
            len(part) if isinstance(part, bytes) else part.size_bytes for part in parts
        )

    def framed(self, correlation_id: int, throttle_time_ms: int, session_id: int) -> list[ReplyPart]:
        """The whole frame."""
        self._parts[0] = fetch_wire.frame_head(self.body_bytes, correlation_id) + fetch_wire.response_head(
            self._version, throttle_time_ms, 0, session_id
        )
        return _joined(self._parts)


def error_frame_bytes(api_version: int) -> int:
    """The size of `error_frame`."""
    return len(error_frame(api_version, 0, 0))


def error_frame(api_version: int, correlation_id: int, error_code: int, throttle_time_ms: int = 0) -> bytes:
    """What a Fetch gets whose session cannot be used."""
    head = fetch_wire.response_head(api_version, throttle_time_ms, error_code, 0)
    form = fetch_wire.form_of(api_version)
    body = head + form.packed_count(0) + form.end
    return fetch_wire.frame_head(len(body), correlation_id) + body


def _partition_head(version: int, read: PartitionRead) -> bytes:
    return fetch_wire.partition_head(
        version,
        read.wanted.partition,
        read.error_code,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        read.records_bytes,
        read.aborted,
    )


def _content(records: LogSlice) -> bytes:
    """Small slices are read: not worth a sendfile. Raises: OSError."""
    content = records.read()
    if len(content) != records.size_bytes:
        raise OSError(f"a log segment ends {records.size_bytes - len(content)} bytes early")
    return content


def _joined(parts: list[bytes | LogSlice]) -> list[ReplyPart]:
    """Neighbouring bytes joined: one send instead of many."""
    out: list[ReplyPart] = []
    run: list[bytes] = []
    for part in parts:
        if isinstance(part, bytes):
            run.append(part)
            continue
        if run:
            out.append(b"".join(run))
            run = []
        out.append(part)
    if run:
        out.append(b"".join(run))
    return out
