"""Opening a partition's directory: leftovers, recovery after a crash, epochs, producers.

After a clean shutdown nothing but the tail of the active segment is looked at. After a crash every byte
from the recovery point on is read and checked, the log ends before the first one that is wrong, and what
the indexes, the epoch checkpoint and the producer snapshots lack is rebuilt from there.
"""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from broker.log.batch_scan import scan_valid
from broker.log.checkpoint_text import CheckpointCorrupt, parse_epochs
from broker.log.damage import Damage, merged, within
from broker.log.damage_check import check_sealed
from broker.log.epoch_cache import EpochCache
from broker.log.files import LogFiles
from broker.log.leader_epochs import EPOCH_CHECKPOINT
from broker.log.log_config import LogConfig
from broker.log.offset_index import RELATIVE_MAX
from broker.log.producer_loading import load_producers
from broker.log.producer_state import ProducerStates
from broker.log.rewind import rewind
from broker.log.sealed_segments import SEALED_SEGMENTS, SealedSegments
from broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from broker.log.segment_list import SegmentList
from broker.log.snapshot_files import SnapshotFiles
from broker.log.unfinished import finish


class LoadedLog(NamedTuple):
    """What `PartitionLog` starts from."""

    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    epochs: EpochCache
    are_epochs_kept: bool
    """Whether their checkpoint says the same."""
    producers: ProducerStates
    snapshots: SnapshotFiles
    recovered_bytes: int
    """Read and checked because they may not have been flushed."""
    truncated_bytes: int
    """Cut off: torn or corrupt, and what came behind."""
    sealed: bool
    """Whether the index files hold everything, as a clean shutdown leaves them."""
    damage: tuple[Damage, ...] = ()


class _Found(NamedTuple):
    """Offsets that file names say."""

    segments: list[int]
    snapshots: list[int]
    txn_indexes: set[int]
    has_epochs: bool
    has_sizes: bool


class _Recovered(NamedTuple):
    log_end_offset: int
    checked_from: int
    """Every batch from here on was read."""
    has_producers: bool
    """Whether one of these has a producer id."""
    epochs: list[tuple[int, int]]
    recovered_bytes: int
    truncated_bytes: int
    sealed: bool = False


def load_log(
    directory: Path,
    files: LogFiles,
    config: LogConfig,
    *,
    recovery_point: int | None,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
) -> LoadedLog:
    """`recovery_point` None: no checkpoint knows of this log, so all of it is checked. Raises: OSError."""
    found = _tidy(directory)
    segments = [_existing(directory, base, files) for base in found.segments]
    if not segments:
        segments = [Segment.create(directory, log_start_offset, files, now_ms)]
    sealed = SealedSegments.load(directory) if found.has_sizes else SealedSegments(directory)
    trusted_to = segments[-1].base_offset if clean else recovery_point or 0
    damage = check_sealed(segments, sealed, trusted_to, gapless=not config.is_compacted)
    recovered = _trust(segments, config) if clean else _recover(segments, config, recovery_point)
    if recovered.log_end_offset < log_start_offset:
        for segment in segments:
            segment.remove()
        segments = [Segment.create(directory, log_start_offset, files, now_ms)]
        recovered = recovered._replace(log_end_offset=log_start_offset, checked_from=log_start_offset)
    start = max(log_start_offset, min([segments[0].base_offset, *(each.first_offset for each in damage)]))
    _note_sealed(segments, sealed, recovered.checked_from)
    snapshots = SnapshotFiles(directory, found.snapshots)
    listed = SegmentList(directory, files, segments, sealed)
    end = recovered.log_end_offset
    index_from = _reset_aborted(segments, found.txn_indexes, min(recovered.checked_from, end))
    producers = load_producers(
        listed,
        snapshots,
        end,
        now_ms,
        index_from=index_from,
        until=end if recovered.has_producers else recovered.checked_from,
    )
    for segment in listed.since(index_from):
        segment.write_indexes()
    return LoadedLog(
        listed,
        start,
        end,
        *_load_epochs(directory if found.has_epochs else None, listed, recovered, start),
        producers,
        snapshots,
        recovered.recovered_bytes,
        recovered.truncated_bytes,
        recovered.sealed and index_from == end,
        within(merged(damage), start, end),
    )


def _note_sealed(segments: list[Segment], sealed: SealedSegments, checked_from: int) -> None:
    """What recovery has checked and closed is known from now on; what it has cut off is not."""
    sealed.forget([base for base in sealed.sizes if base >= segments[-1].base_offset])
    for segment, following in pairwise(segments):
        if following.base_offset > checked_from and (
            sealed.sizes.get(segment.base_offset) != segment.size_bytes
        ):
            sealed.add(segment.base_offset, segment.size_bytes)


def new_log(directory: Path, files: LogFiles, now_ms: int) -> LoadedLog:
    """A log that begins, in a directory that was made for it: nothing to look for. Raises: OSError."""
    first = Segment.create_first(directory, 0, files, now_ms)
    segments = SegmentList(directory, files, [first], SealedSegments(directory))
    return LoadedLog(
        segments,
        0,
        0,
        EpochCache(),
        True,
        ProducerStates(),
        SnapshotFiles(directory),
        0,
        0,
        sealed=True,
    )


def _reset_aborted(segments: list[Segment], with_index: set[int], checked_from: int) -> int:
    """From which offset on aborted transactions must be found again; the indexes hold none of those."""
    indexed = [segment for segment in segments if segment.base_offset in with_index]
    for segment in indexed:
        if not segment.aborted_file.is_sound():
            segment.aborted_file.clear()
            checked_from = min(checked_from, segment.base_offset)
    for segment in indexed:
        segment.aborted_file.truncate(checked_from)
    return checked_from


def _tidy(directory: Path) -> _Found:
    """What is there, after finishing or removing what a crash left half done."""
    names = finish(directory)
    bases = _offsets(names, LOG_SUFFIX)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        for base in set(_offsets(names, suffix)) - set(bases):
            (directory / f"{base:020d}{suffix}").unlink(missing_ok=True)
    txn_indexes = set(_offsets(names, TXN_INDEX_SUFFIX)) & set(bases)
    snapshots = _offsets(names, SNAPSHOT_SUFFIX)
    return _Found(bases, snapshots, txn_indexes, EPOCH_CHECKPOINT in names, SEALED_SEGMENTS in names)


def _offsets(names: list[str], suffix: str) -> list[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _existing(directory: Path, base: int, files: LogFiles) -> Segment:
    segment = Segment(directory, base, files, size_bytes=0, created_ms=0)
    stat = segment.path().stat()
    segment.size_bytes = stat.st_size
    segment.created_ms = stat.st_mtime_ns // 1_000_000
    return segment


def _trust(segments: list[Segment], config: LogConfig) -> _Recovered:
    """After a clean shutdown: only the end of the active segment is looked up."""
    active = segments[-1]
    file_size = active.size_bytes
    last = active.index.last
    end, next_offset = 0, active.base_offset
    if active.index.is_sound(file_size):
        for position, header in active.headers(last[1] if last else 0):
            end, next_offset = position + header.size_bytes, header.next_offset
    if end != file_size:
        return _recover(segments, config, active.base_offset)
    return _Recovered(next_offset, next_offset, False, [], 0, 0, sealed=True)


def _recover(segments: list[Segment], config: LogConfig, checkpoint: int | None) -> _Recovered:
    """Check what may not have been flushed; `segments` loses what lies behind the first wrong byte.

    A power cut can take the end of one segment and spare the next, so a gap behind the recovery point ends
    the log too. Only compaction leaves gaps, and only where the log was flushed: without a checkpoint they
    stay.
    """
    recovery_point = 0 if checkpoint is None else checkpoint
    gapless = checkpoint is not None and not config.is_compacted
    epochs: list[tuple[int, int]] = []
    recovered = truncated = 0
    next_offset = segments[0].base_offset
    checked_from: int | None = None
    has_producers = False
    for number, segment in enumerate(segments):
        lost = gapless and number > 0 and segment.base_offset > max(next_offset, recovery_point)
        if segment.base_offset < next_offset or lost:
            truncated += _remove_from(segments, number)
            break
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if following is not None and following <= recovery_point:
            next_offset = following
            continue
        file_size = segment.size_bytes
        start, next_offset = rewind(segment, config, recovery_point, file_size)
        checked_from = next_offset if checked_from is None else checked_from
        handle = segment.handle()
        for _, header in scan_valid(handle.fd, start, file_size):
            gap = header.base_offset - next_offset
            overflows = header.last_offset - segment.base_offset > RELATIVE_MAX
            if gap < 0 or (gap and gapless) or overflows:
                break
            segment.note(header, config.index_interval_bytes)
            if not epochs or header.partition_leader_epoch != epochs[-1][0]:
                epochs.append((header.partition_leader_epoch, header.base_offset))
            has_producers = has_producers or header.producer_id >= 0
            next_offset = header.next_offset
        recovered += file_size - start
        if segment.size_bytes < file_size:
            segment.cut(segment.size_bytes)
            truncated += file_size - segment.size_bytes + _remove_from(segments, number + 1)
            break
        if following is not None:
            segment.seal()
    if checked_from is None:
        checked_from = next_offset
    return _Recovered(next_offset, checked_from, has_producers, epochs, recovered, truncated)


def _remove_from(segments: list[Segment], number: int) -> int:
    """Delete the last segments first, so that a crash leaves no hole; bytes removed."""
    removed = 0
    while len(segments) > number:
        removed += segments[-1].size_bytes
        segments.pop().remove()
    return removed


def _load_epochs(
    directory: Path | None, segments: SegmentList, recovered: _Recovered, log_start_offset: int
) -> tuple[EpochCache, bool]:
    """Them, and whether their checkpoint says the same. `directory`: None where it holds none."""
    kept: list[tuple[int, int]] = []
    try:
        if directory is None:
            raise FileNotFoundError
        kept = parse_epochs((directory / EPOCH_CHECKPOINT).read_text())
        epochs = EpochCache(kept)
        found = recovered.epochs
        if found:  # a truncation may not have reached the disk: the batches know better
            epochs.truncate_end(found[0][1])
    except (FileNotFoundError, CheckpointCorrupt, UnicodeDecodeError):
        epochs = EpochCache()
        found = [
            (header.partition_leader_epoch, header.base_offset)
            for segment in segments
            for _, header in segment.headers(0)
        ]
    for epoch, start_offset in found:
        if epoch > epochs.latest:
            epochs.assign(epoch, start_offset)
    epochs.truncate_end(recovered.log_end_offset)
    epochs.truncate_start(log_start_offset)
    return epochs, epochs.entries == kept
