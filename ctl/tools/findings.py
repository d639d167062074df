"""What a check found: `ok`, `warn` or `bad`, and what to do about it."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One check."""

    level: str
    subject: str
    found: str
    advice: str = ""
