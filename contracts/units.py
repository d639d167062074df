"""Sizes, rates and durations as people write them: `20MB/s`, `10GB`, `512 KiB`, `7d` (design: Command
contract)."""

import re
from decimal import Decimal
from typing import Final

MB: Final = 10**6
GB: Final = 10**9
_FACTORS: Final = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": MB,
    "GB": GB,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_FOUR_DIGITS_FROM: Final = 999.5
"""Rounded to three, it would be written as a power of ten."""
_DURATION_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)?\s*\Z", re.ASCII)
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*(/s)?\s*\Z", re.ASCII)


def parse_bytes(text: str, *, rate: bool = False) -> int:
    """Bytes (or bytes/s with `rate`, where `/s` is optional) of a size such as `10GB`.

    Raises: ValueError with a sentence fit for the command line.
    """
    match = _TEXT.match(text)
    if match is None or match[2] not in _FACTORS or (match[3] and not rate):
        example = "20MB/s" if rate else "10GB"
        units = "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        raise ValueError(f"'{text}' is not a {'rate' if rate else 'size'}: write it like {example} ({units})")
    value = Decimal(match[1]) * _FACTORS[match[2]]
    if value != value.to_integral_value():
        raise ValueError(f"'{text}' is not a whole number of bytes")
    if value >= 2**63:
        raise ValueError(f"'{text}' is too large")
    return int(value)


def format_cpu(us_per_s: int) -> str:
    """CPU time per second, three significant digits: `12.5 ms/s`; 1,000 ms/s are one core."""
    ms = us_per_s / 1000
    return f"{ms:,.0f} ms/s" if ms >= 100 else f"{ms:.3g} ms/s"


def format_bytes(count: int, *, rate: bool = False) -> str:
    """A size people read, three significant digits, decimal units: `12.5 MB/s`."""
    suffix = "/s" if rate else ""
    for unit, factor in (("TB", 10**12), ("GB", GB), ("MB", MB), ("kB", 10**3)):
        if abs(count) >= factor:
            value = count / factor
            digits = f"{value:.3g}" if abs(value) < _FOUR_DIGITS_FROM else f"{value:.0f}"
            return f"{digits} {unit}{suffix}"
    return f"{count} B{suffix}"


def counted(count: int, noun: str) -> str:
    """`1 topic`, `2 topics`, `12,000 topics`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_duration(duration_ms: int) -> str:
    """A duration as `parse_duration_ms` takes it, in the largest unit that gives a whole number: `7d`."""
    if not duration_ms:
        return "0"
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if duration_ms % _DURATION_MS[unit] == 0)
    return f"{duration_ms // _DURATION_MS[unit]}{unit}"


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `10s`, `500ms`, `2m`, `1h` or `7d`; a bare number is seconds.

    Raises: ValueError with a sentence fit for the command line.
    """
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"'{text}' is no duration like 10s, 500ms, 2m, 1h or 7d")
    return int(Decimal(match[1]) * _DURATION_MS[match[2] or "s"])
