"""What the logs on the disk know that an older tree does not: topics, their ids, and how far replicas come.

Nothing is written, and no broker may write meanwhile.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.log.batch_scan import scan_valid
from broker.log.checkpoint_text import CheckpointCorrupt, parse_epochs
from broker.log.leader_epochs import EPOCH_CHECKPOINT
from broker.log.offset_index import OffsetIndex
from broker.log.partition_metadata import PARTITION_METADATA, read_topic_id
from broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, offset_file_name
from broker.storage.log_directory import STRAY_SUFFIX
from ctl.backup.raising import Replica
from ctl.tools.log_scrub import Place, places_in
from wire.batch import BatchHeader

_TELL_EACH: Final = 500


def survey(directories: Mapping[int, list[Path]], tell: Callable[[int], None]) -> Iterator[Replica]:
    """Every replica in these brokers' log directories; `tell` hears how many so far. Raises: OSError."""
    count = 0
    for broker_id, paths in directories.items():
        for path in paths:
            for place in places_in(path):
                if place.directory.name.endswith(STRAY_SUFFIX):
                    continue
                yield _replica(broker_id, place)
                count += 1
                if count % _TELL_EACH == 0:
                    tell(count)


def _replica(broker_id: int, place: Place) -> Replica:
    epoch, end_offset = _end(place.directory)
    return Replica(
        broker_id=broker_id,
        topic=place.topic,
        partition=place.partition,
        topic_id=read_topic_id(place.directory),
        leader_epoch=epoch,
        end_offset=end_offset,
        made_ns=_made_ns(place.directory / PARTITION_METADATA),
    )


def _made_ns(metadata: Path) -> int:
    try:
        return metadata.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _end(directory: Path) -> tuple[int, int]:
    """(latest leader epoch, log end offset), as a broker that recovers the log will find them."""
    epoch = _noted_epoch(directory)
    bases = sorted(int(path.stem) for path in directory.glob(f"*{LOG_SUFFIX}") if path.stem.isdecimal())
    end_offset = bases[-1] if bases else 0
    for base in reversed(bases):
        descriptor = os.open(directory / offset_file_name(base, LOG_SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(descriptor).st_size
            for header in _last_batches(descriptor, _indexed(directory, base, size_bytes), size_bytes):
                epoch = max(epoch, header.partition_leader_epoch)
                end_offset = max(end_offset, header.next_offset)
        finally:
            os.close(descriptor)
        if end_offset > base:
            break
    return epoch, end_offset


def _last_batches(descriptor: int, positions: list[int], size_bytes: int) -> Iterator[BatchHeader]:
    """From the last indexed batch that is whole on: a large segment need not be read from its start."""
    for position in (*reversed(positions), 0):
        is_whole = False
        for _, header in scan_valid(descriptor, position, size_bytes):
            is_whole = True
            yield header
        if is_whole:
            return


def _indexed(directory: Path, base: int, size_bytes: int) -> list[int]:
    """Where batches begin, as far as the index can be believed."""
    try:
        index = OffsetIndex(base, (directory / offset_file_name(base, INDEX_SUFFIX)).read_bytes())
    except FileNotFoundError:
        return []
    return index.positions() if index.is_sound(size_bytes) else []


def _noted_epoch(directory: Path) -> int:
    try:
        entries = parse_epochs((directory / EPOCH_CHECKPOINT).read_text())
    except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
        return -1
    return max((epoch for epoch, _ in entries), default=-1)
