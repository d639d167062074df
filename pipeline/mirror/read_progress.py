"""Reads the progress topic, committed records only, up to where it ended when the reading began."""

import time
from typing import Final

from pipeline.mirror.cluster import LATEST, Cluster
from pipeline.mirror.planning.errors import Unreachable
from pipeline.mirror.planning.progress import PROGRESS_PARTITION, PROGRESS_TOPIC, Progress
from pipeline.mirror.source import OutOfRange, PartitionReader, committed_batches, payload_of
from pipeline.mirror.writers import TRANSACTION_TIMEOUT_MS
from wire.batch import decode_records

_WITHIN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 10


def progress_ends(cluster: Cluster) -> tuple[int, int]:
    """(last stable offset, high watermark) of the progress topic."""
    topic = cluster.topic(PROGRESS_TOPIC)
    if topic is None:
        raise Unreachable(f"topic {PROGRESS_TOPIC} is not there yet")
    stable, everything = (
        cluster.offsets(topic, LATEST, committed=committed, partitions=[PROGRESS_PARTITION])
        for committed in (True, False)
    )
    return stable[PROGRESS_PARTITION], everything[PROGRESS_PARTITION]


def catch_up(cluster: Cluster, progress: Progress, *, wait: bool) -> None:
    """Read on, up to where the topic ends at this moment.

    `wait` for transactions that are open below its end: whoever fenced a unit before it asks here sees the
    last progress of that unit, also while another mirror's transaction holds the last stable offset back.
    """
    stable, everything = progress_ends(cluster)
    end = everything if wait else stable
    if progress.next_offset >= end:
        return
    reader = PartitionReader(cluster, PROGRESS_TOPIC, PROGRESS_PARTITION, progress.next_offset)
    try:
        _read_to(reader, progress, end)
    except OutOfRange as error:
        raise Unreachable(f"{PROGRESS_TOPIC} of the target was truncated: {error}") from error
    finally:
        reader.close()


def _read_to(reader: PartitionReader, progress: Progress, end: int) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while progress.next_offset < end:
        fetched = reader.read()
        for at, header in committed_batches(fetched.part):
            payload = payload_of(fetched.part, at, header)
            progress.take(decode_records(header, payload.data[payload.at : payload.end]))
        progress.next_offset = max(progress.next_offset, fetched.next_offset)
        if time.monotonic() > deadline:
            raise Unreachable(f"a transaction of another mirror keeps {PROGRESS_TOPIC} from being read")
