"""An offsets partition in memory: batches as they would be on the disk."""

from typing import Any

from broker.coordination.effects import Moment
from broker.groups.messages import Append
from broker.groups.records import Record
from wire import batch
from wire.control import parse_marker


class MemoryLog:
    """What a restart finds."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.end_offset = 0
        self._batches: list[bytes] = []

    def write(self, core: Any, append: Append, now: Moment) -> int:
        """Append as the shard does; the base offset."""
        written = core.encode(append, now).records
        base_offset = self.end_offset
        batch.assign_offset(written, 0, base_offset, 0)
        self._batches.append(bytes(written))
        self.records.extend(append.records)
        self.end_offset = batch.parse_header(written).next_offset
        return base_offset

    def replay(self, core: Any) -> None:
        """All of it."""
        for each in self._batches:
            header = batch.parse_header(each)
            marker = parse_marker(each, header) if header.is_control else None
            if marker is not None:
                core.replay_marker(header.producer_id, marker)
            else:
                core.replay(header, batch.decode_records(header, each[batch.HEADER_SIZE :]))
