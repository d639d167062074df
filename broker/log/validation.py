"""Whether records may be appended. Pure. `broker.log.payload` looks at the records themselves.

Source: Kafka UnifiedLog.analyzeAndValidateRecords, LogValidator, ProduceRequest.validateRecords.
"""

from kio.schema.errors import ErrorCode

from broker.log.errors import AppendRefused
from broker.log.log_config import LogConfig
from wire.batch import (
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchError,
    BatchHeader,
    Buffer,
    check_client_header,
    check_crc,
    check_magic,
    iterate_batches,
    parse_header,
)
from wire.legacy.message_set import MAGIC_AT, MAGIC_V0, MAGIC_V1
from wire.record_lengths import check_lengths
from wire.record_walk import check_count


def check_client_records(
    records: Buffer, config: LogConfig, now_ms: int, *, walks: bool = False
) -> BatchHeader:
    """The header of the one batch that a Produce request may hold per partition.

    `walks`: go along the records, too, where they are not compressed. Raises: AppendRefused.
    """
    try:
        size_bytes = len(records)
        if size_bytes < HEADER_SIZE:
            _refuse_short_messages(records)
        header = parse_header(records)
        check_magic(header)
        if header.batch_length + LOG_OVERHEAD != size_bytes:
            raise _other_length(header, size_bytes)
        check_client_header(header)
        if size_bytes > config.max_message_bytes or size_bytes > config.segment_bytes:
            raise _too_large(size_bytes, config)
        walks = walks and not header.attributes & CODEC_MASK
        if not walks:
            check_count(header)
        check_crc(records, 0, header)
        if walks:
            check_lengths(records, header)
    except BatchError as error:
        raise AppendRefused(error.error_code, error.message) from error
    _check_timestamps(header, config, now_ms)
    return header


def _refuse_short_messages(records: Buffer) -> None:
    """A message of format v0 or v1 may be shorter than the header of a batch, and is no damaged batch."""
    if MAGIC_AT < len(records) < HEADER_SIZE and records[MAGIC_AT] in (MAGIC_V0, MAGIC_V1):
        raise BatchError(
            ErrorCode.invalid_record, f"message format {records[MAGIC_AT]} needs a Produce request before v3"
        )


def check_own_records(records: Buffer) -> tuple[tuple[int, BatchHeader], ...]:
    """(position, header) of batches that a coordinator or a leader made. Raises: AppendRefused."""
    try:
        batches = tuple(iterate_batches(records))
        for at, header in batches:
            check_crc(records, at, header)
    except BatchError as error:
        raise AppendRefused(error.error_code, error.message) from error
    if not batches:
        raise AppendRefused(ErrorCode.invalid_record, "there is no record batch")
    return batches


def check_fetched_records(
    records: Buffer, *, log_end_offset: int, latest_epoch: int, leader_epoch: int
) -> tuple[tuple[int, BatchHeader], ...]:
    """(position, header) of the whole batches that a leader answered a Fetch with; the rest is left out.

    Raises: AppendRefused for a wrong CRC, offsets that do not follow the log's end, leader epochs that fall
    or are newer than the one that was fetched in (the answer outlived its leader, KAFKA-18723).
    """
    batches = []
    at, expected, epoch = 0, log_end_offset, latest_epoch
    try:
        while len(records) - at >= HEADER_SIZE:
            header = parse_header(records, at)
            check_magic(header)
            if header.batch_length < BATCH_LENGTH_MIN or header.last_offset_delta < 0:
                raise BatchError(ErrorCode.corrupt_message, "impossible batch length or last offset")
            if header.size_bytes > len(records) - at:
                break
            check_crc(records, at, header)
            if header.base_offset < expected:
                raise BatchError(
                    ErrorCode.offset_out_of_range,
                    f"a batch from offset {header.base_offset} on cannot follow offset {expected}",
                )
            _check_epoch(header.partition_leader_epoch, epoch, leader_epoch)
            batches.append((at, header))
            at += header.size_bytes
            expected, epoch = header.next_offset, header.partition_leader_epoch
    except BatchError as error:
        raise AppendRefused(error.error_code, error.message) from error
    if not batches:
        raise AppendRefused(ErrorCode.corrupt_message, "there is no whole record batch")
    return tuple(batches)


def _check_epoch(epoch: int, latest_epoch: int, leader_epoch: int) -> None:
    if epoch < latest_epoch:
        raise BatchError(
            ErrorCode.fenced_leader_epoch, f"a batch of leader epoch {epoch} cannot follow {latest_epoch}"
        )
    if epoch > leader_epoch:
        raise BatchError(
            ErrorCode.unknown_leader_epoch, f"a batch of leader epoch {epoch} in a fetch of {leader_epoch}"
        )


def _other_length(header: BatchHeader, size_bytes: int) -> BatchError:
    """The fault of a header that does not stand before as many bytes as it says."""
    if header.batch_length < BATCH_LENGTH_MIN:
        return BatchError(
            ErrorCode.corrupt_message, f"batch length {header.batch_length} is below {BATCH_LENGTH_MIN}"
        )
    claimed = header.size_bytes
    if claimed > size_bytes:
        return BatchError(
            ErrorCode.corrupt_message, f"a batch of {claimed} bytes is cut off after {size_bytes}"
        )
    return BatchError(
        ErrorCode.invalid_record,
        f"{size_bytes - claimed} bytes follow the batch: produce exactly one batch per partition",
    )


def _too_large(size_bytes: int, config: LogConfig) -> BatchError:
    if size_bytes > config.max_message_bytes:
        return BatchError(
            ErrorCode.message_too_large,
            f"the batch has {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    return BatchError(
        ErrorCode.record_list_too_large,
        f"the batch has {size_bytes} bytes, segment.bytes is {config.segment_bytes}",
    )


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Kafka looks at every record; the header's base and largest timestamp bound them all."""
    if header.is_log_append_time:
        raise AppendRefused(
            ErrorCode.invalid_timestamp, "producers may not set the timestamp type LogAppendTime"
        )
    if config.stamps_append_time:
        return
    base_ms, max_ms = header.base_timestamp_ms, header.max_timestamp_ms
    if max_ms != NO_TIMESTAMP and max_ms - now_ms > config.message_timestamp_after_max_ms:
        raise AppendRefused(
            ErrorCode.invalid_timestamp,
            f"timestamp {max_ms} is more than {config.message_timestamp_after_max_ms} ms ahead of {now_ms}",
        )
    if base_ms != NO_TIMESTAMP and now_ms - base_ms > config.message_timestamp_before_max_ms:
        raise AppendRefused(
            ErrorCode.invalid_timestamp,
            f"timestamp {base_ms} is more than {config.message_timestamp_before_max_ms} ms before {now_ms}",
        )
