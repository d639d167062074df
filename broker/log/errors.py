"""What the log refuses, each with the error code that Kafka answers."""

from kio.schema.errors import ErrorCode


class LogError(Exception):
    """An operation on a log was not done. `error_code` is the partition's answer, `message` fit for a
    client; "": the code says it all."""

    def __init__(self, error_code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class AppendRefused(LogError):  # noqa: N818 - a verdict about the records, not a fault of ours
    """The records break a rule; nothing was written."""

    def __init__(self, error_code: ErrorCode, message: str, record_indexes: tuple[int, ...] = ()) -> None:
        super().__init__(error_code, message)
        self.record_indexes = record_indexes
        """Which records of the batch it is about, where single ones can be named (KIP-467)."""


class OffsetOutOfRange(LogError):  # noqa: N818 - Kafka's word
    """The offset is below the log start offset or above the log end offset."""

    def __init__(self, offset: int, first_offset: int, last_offset: int) -> None:
        super().__init__(
            ErrorCode.offset_out_of_range, f"offset {offset} is not within {first_offset}..{last_offset}"
        )


class RecordsDamaged(LogError):  # noqa: N818 - says what is so
    """The records at this offset are on the disk no more, or not as they were written."""

    def __init__(self, where: str, offset: int) -> None:
        super().__init__(ErrorCode.corrupt_message, f"{where}: the records at offset {offset} are damaged")


class StorageFailed(LogError):  # noqa: N818 - named after KAFKA_STORAGE_ERROR
    """The disk refused. Nothing of the operation is visible; what was acknowledged before stays readable."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.kafka_storage_error, message)


class LogDirectoryUnusable(Exception):  # noqa: N818 - says what is so
    """A log directory is locked by another process or belongs to another cluster or node."""
