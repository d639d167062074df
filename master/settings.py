"""Settings of the master."""

from dataclasses import dataclass

from contracts.usage_records import INTERVAL_MS_DEFAULT, INTERVAL_MS_MAX, INTERVAL_MS_MIN
from master.quota.policies import POLICIES


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """Frozen; a restart is needed to change one, but for the policy (PUT /internal/v1/policy)."""

    policy: str = "seed"
    """The rule until an operator chooses another one: `static`, `seed`, `capped` or `fair`."""
    period_ms: int = 1_000
    """How often points report, 1,000-10,000."""
    lease_periods: int = 5
    """An allocation is good for this many periods after it was received."""
    silent_periods: int = 3
    """A broker not heard of for this long leaves the rule; its share stays reserved."""
    unblock_fraction: float = 0.98
    """A full instance takes produce again below this part of its capacity; in (0, 1]."""
    journal_periods: int = 5
    """Allocations are written to the journal this often, so that a new master starts from them."""
    usage_interval_ms: int = INTERVAL_MS_DEFAULT
    """Usage is told once per so long, 1,000-300,000."""

    def validate(self) -> None:
        """Raises: ValueError naming every setting that is out of bounds."""
        faults = []
        if self.policy not in POLICIES:
            faults.append(f"policy is '{self.policy}', must be one of {', '.join(POLICIES)}")
        if not 1_000 <= self.period_ms <= 10_000:
            faults.append(f"period_ms is {self.period_ms}, must be 1000-10000")
        if not 1 <= self.silent_periods <= self.lease_periods:
            faults.append(
                f"silent_periods is {self.silent_periods}, must be 1-{self.lease_periods} (lease_periods)"
            )
        if not 0 < self.unblock_fraction <= 1:
            faults.append(f"unblock_fraction is {self.unblock_fraction}, must be above 0 and at most 1")
        if self.journal_periods < 1:
            faults.append(f"journal_periods is {self.journal_periods}, must be at least 1")
        if not INTERVAL_MS_MIN <= self.usage_interval_ms <= INTERVAL_MS_MAX:
            faults.append(
                f"usage_interval_ms is {self.usage_interval_ms}, must be {INTERVAL_MS_MIN}-{INTERVAL_MS_MAX}"
            )
        if faults:
            raise ValueError("; ".join(faults))
