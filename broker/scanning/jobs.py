"""The jobs of the scanning process as generators: at each `yield` another instance may have its turn."""

from collections.abc import Generator
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from broker.log.time_lookup import find
from broker.scanning.messages import CheckRecords, Failed, FindTime, Found, Job, Refused, Result, Right
from wire.batch import BatchError
from wire.compression import PayloadTooLarge, PayloadUnreadable, decompress
from wire.record_walk import KeylessRecords, RecordScan, ScanTask

Steps: TypeAlias = Generator[None, None, Result]

RECORDS_PER_STEP: Final = 1_000
"""About half a millisecond."""


def begun(job: Job) -> Steps:
    """The job, to be driven step by step."""
    return check_records(job) if isinstance(job, CheckRecords) else find_time(job)


def check_records(job: CheckRecords) -> Steps:
    """Decompress, then look at every record."""
    try:
        payload = decompress(job.payload, job.codec, job.bytes_max)
        yield
        scan = RecordScan(payload, 0, len(payload), ScanTask(job.record_count, job.needs_keys))
        while not scan.step(RECORDS_PER_STEP):
            yield
    except KeylessRecords as error:
        return Refused(int(error.error_code.value), error.message, error.indexes)
    except BatchError as error:
        return Refused(int(error.error_code.value), error.message)
    except PayloadTooLarge as error:
        return Refused(int(ErrorCode.message_too_large.value), f"the records cannot be read: {error}")
    except PayloadUnreadable as error:
        return Refused(int(ErrorCode.invalid_record.value), f"the records cannot be read: {error}")
    return Right()


def find_time(job: FindTime) -> Steps:
    """Walk the files. One that retention or compaction has taken meanwhile: the client asks again."""
    try:
        return Found((yield from find(job.search)))
    except OSError as error:
        return Failed(f"a segment cannot be read: {error}")
