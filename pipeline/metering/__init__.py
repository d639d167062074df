"""Usage and bills: from the records on topic `usage` to what an instance owes."""

from typing import Final

KEEP_DAYS: Final = 90
"""So long records are kept after their month and its bills are closed."""
KEEP_DAYS_MIN: Final = 60
"""Records may arrive 45 days late and look at what was before them."""
