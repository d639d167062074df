"""Kafka's text checkpoints: a version line, a count line, then one entry per line. Pure."""

import base64
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

_VERSION: Final = "0"


class CheckpointCorrupt(ValueError):  # noqa: N818 - states what is so
    """A checkpoint file does not parse; its content can be rebuilt from the log."""


def entries_of(text: str, fields: int) -> Iterable[list[str]]:
    """The fields of each line. Raises: CheckpointCorrupt."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _VERSION:
        raise CheckpointCorrupt("no version 0 checkpoint")
    if lines[1] != str(len(lines) - 2):
        raise CheckpointCorrupt(f"{len(lines) - 2} entries where {lines[1]} are announced")
    for line in lines[2:]:
        parts = line.split(" ")
        if len(parts) != fields:
            raise CheckpointCorrupt(f"malformed line {line!r}")
        yield parts


def formatted(entries: Iterable[str]) -> str:
    """A checkpoint of these lines."""
    lines = list(entries)
    return "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"


def _numbers(parts: Iterable[str]) -> list[int]:
    try:
        return [int(part) for part in parts]
    except ValueError as error:
        raise CheckpointCorrupt(str(error)) from error


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """`topic partition offset` lines."""
    offsets = {}
    for topic, *rest in entries_of(text, 3):
        partition, offset = _numbers(rest)
        offsets[topic, partition] = offset
    return offsets


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> str:
    return formatted(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def parse_epochs(text: str) -> list[tuple[int, int]]:
    """`epoch startOffset` lines."""
    return [(epoch, start) for epoch, start in (_numbers(parts) for parts in entries_of(text, 2))]


def format_epochs(entries: Iterable[tuple[int, int]]) -> str:
    return formatted(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def parse_sizes(text: str) -> dict[int, int]:
    """`baseOffset size` lines."""
    sizes = {}
    for parts in entries_of(text, 2):
        base_offset, size_bytes = _numbers(parts)
        sizes[base_offset] = size_bytes
    return sizes


def format_sizes(sizes: Mapping[int, int]) -> str:
    return formatted(f"{base} {size}" for base, size in sorted(sizes.items()))


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError as error:
        raise CheckpointCorrupt(f"{text!r} is no Kafka uuid") from error


def format_partition_metadata(topic_id: uuid.UUID) -> str:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}"


def parse_partition_metadata(text: str) -> uuid.UUID:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise CheckpointCorrupt("no version 0 partition.metadata")
    return decode_uuid(fields["topic_id"])


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file of the plain kind that `meta.properties` is."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def format_properties(values: Mapping[str, str]) -> str:
    return "#\n" + "".join(f"{key}={value}\n" for key, value in values.items())
