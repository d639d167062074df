"""The jobs of the scanning process as generators: at each `yield` another instance may have its turn."""

from collections.abc import Generator
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from broker.log.time_lookup import find
from broker.scanning.messages import (
    CheckRecords,
    Convert,
    Converted,
    Failed,
    FindLatest,
    FindTime,
    Found,
    Job,
    Refused,
    Result,
    Right,
)
from wire.batch import HEADER_SIZE, BatchError, parse_header
from wire.compression import PayloadTooLarge, PayloadUnreadable, decompress
from wire.legacy.conversion import record_batch_of
from wire.record_walk import KeylessRecords, RecordScan, ScanTask

Steps: TypeAlias = Generator[None, None, Result]

RECORDS_PER_STEP: Final = 1_000
"""About half a millisecond."""


def begun(job: Job) -> Steps:
    """The job, to be driven step by step."""
    if isinstance(job, CheckRecords):
        return check_records(job)
    return find_time(job) if isinstance(job, FindTime | FindLatest) else convert(job)


def check_records(job: CheckRecords) -> Steps:
    """Decompress, then look at every record."""
    try:
        payload = decompress(job.payload, job.codec, job.bytes_max)
        yield
        scan = RecordScan(payload, 0, len(payload), ScanTask(job.record_count, job.needs_keys))
        while not scan.step(RECORDS_PER_STEP):
            yield
    except (BatchError, PayloadUnreadable) as error:
        return _refused(error)
    return Right()


def find_time(job: FindTime | FindLatest) -> Steps:
    """Walk the files. One that retention or compaction has taken meanwhile: the client asks again."""
    try:
        return Found((yield from find(job.search)))
    except OSError as error:
        return Failed(f"a segment cannot be read: {error}")


def convert(job: Convert) -> Steps:
    """Make a batch of messages, and look for keys where they are needed."""
    try:
        batch = record_batch_of(job.message_set)
        yield
        if job.needs_keys:
            header = parse_header(batch)
            payload = decompress(bytes(batch[HEADER_SIZE:]), header.codec)
            scan = RecordScan(payload, 0, len(payload), ScanTask(header.record_count, needs_keys=True))
            while not scan.step(RECORDS_PER_STEP):
                yield
    except (BatchError, PayloadUnreadable) as error:
        return _refused(error)
    return Converted(bytes(batch))


def _refused(error: BatchError | PayloadUnreadable) -> Refused:
    if isinstance(error, KeylessRecords):
        return Refused(int(error.error_code.value), error.message, error.indexes)
    if isinstance(error, BatchError):
        return Refused(int(error.error_code.value), error.message)
    is_large = isinstance(error, PayloadTooLarge)
    code = ErrorCode.message_too_large if is_large else ErrorCode.invalid_record
    return Refused(int(code.value), f"the records cannot be read: {error}")
