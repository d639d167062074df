"""The brokers' state-change logs merged into one story, oldest first.

Each file is in order but for clocks that were set back, so lines are sorted by time; lines of the same
millisecond keep the order of the files they are from. Pure but for reading the files.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ctl.errors import CommandError

FILE_NAME: Final = "state-change.log"
_LINE_BYTES_MAX: Final = 1024 * 1024


class Wanted(NamedTuple):
    """What to keep; None: all."""

    from_ms: int | None = None
    to_ms: int | None = None
    topic: str | None = None
    partitions: frozenset[int] | None = None

    def takes(self, line: dict[str, Any]) -> bool:
        """Whether a line is asked for."""
        return (
            (self.from_ms is None or line["ts"] >= self.from_ms)
            and (self.to_ms is None or line["ts"] <= self.to_ms)
            and (self.topic is None or line.get("topic") == self.topic)
            and (self.partitions is None or line.get("partition") in self.partitions)
        )


class Merged(NamedTuple):
    """The story, and how many lines were no state change (the last line of a dead broker may be torn)."""

    lines: list[dict[str, Any]]
    unreadable: int


def files_of(data_dir: Path) -> list[Path]:
    """Every broker's logs below a data directory, rotated ones included. Raises: CommandError."""
    found = sorted(
        path
        for broker in data_dir.glob("broker-*")
        for path in broker.rglob(f"{FILE_NAME}*")
        if path.is_file()
    )
    if not found:
        raise CommandError(f"no broker in {data_dir} has written a {FILE_NAME}")
    return found


def merge(files: Sequence[Path], wanted: Wanted) -> Merged:
    """All wanted lines of all files by time. Raises: CommandError for a file that cannot be read."""
    lines: list[dict[str, Any]] = []
    unreadable = 0
    for path in files:
        for line in _parsed(_lines(path)):
            if line is None:
                unreadable += 1
            elif wanted.takes(line):
                lines.append(line)
    lines.sort(key=lambda line: int(line["ts"]))
    return Merged(lines, unreadable)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            while line := file.readline(_LINE_BYTES_MAX):
                if line.strip():
                    yield line
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error


def _parsed(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            yield None
            continue
        yield line if isinstance(line, dict) and isinstance(line.get("ts"), int) else None


def sentence(line: dict[str, Any]) -> str:
    """One line for people, without its time."""
    who = f"broker {line.get('broker')}"
    what = f"{line.get('topic')}-{line.get('partition')}"
    way = "to" if line.get("event") == "sent" else "from controller"
    parts = [f"{who} {line.get('event')} {line.get('request')} {way} {line.get('peer')}: {what}"]
    if "leader" in line:
        parts.append(f"leader {line['leader']} epoch {line.get('leader_epoch')}")
        parts += (f"isr {line.get('isr')}", f"replicas {line.get('replicas')}")
    else:
        parts.append(f"leader epoch {line.get('leader_epoch')}")
    if line.get("is_new"):
        parts.append("new")
    if line.get("delete"):
        parts.append("log deleted")
    parts.append(f"controller epoch {line.get('controller_epoch')}")
    if line.get("error"):
        parts.append(f"ERROR {line['error']}")
    return ", ".join(parts)
