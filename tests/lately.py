"""A time for records whose test chooses one."""

import time
from typing import Final

LATELY_MS: Final = int(time.time()) * 1000 - 3_600_000
"""Retention takes records of last year whenever it comes by."""
