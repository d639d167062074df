"""The policies by name: how T is shared out (docs/quota.md, ADR 0008)."""

from collections.abc import Mapping
from typing import Final

from master.quota.allocation import Policy, capped_by, seed, static
from master.quota.fair import fair

EPSILON_PERMILLE: Final = 100
"""eps of `capped`."""

POLICIES: Final[Mapping[str, Policy]] = {
    "static": static,
    "seed": seed,
    "capped": capped_by(EPSILON_PERMILLE),
    "fair": fair,
}
