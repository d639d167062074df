"""Where one log begins, is committed, is durable and ends. Pure."""


class LogOffsets:
    """Invariants: `log_start_offset <= high_watermark <= log_end_offset`; the recovery point is not behind
    the end. All move forward, and back with truncations only."""

    __slots__ = ("high_watermark", "lineage", "log_end_offset", "log_start_offset", "recovery_point")

    def __init__(
        self, log_start_offset: int, log_end_offset: int, high_watermark: int, recovery_point: int
    ) -> None:
        """A high watermark and a recovery point that the log does not reach become its end."""
        self.log_start_offset = log_start_offset
        """What is below it was given up."""
        self.log_end_offset = log_end_offset
        """What the next record gets."""
        self.high_watermark = min(max(high_watermark, log_start_offset), log_end_offset)
        """Records below it are committed."""
        self.recovery_point = min(max(recovery_point, 0), log_end_offset)
        """Everything below it is on the disk."""
        self.lineage = 0
        """Grows with every truncation: a flush that began before says nothing of what came after."""
        self.check()

    def check(self) -> None:
        """Assert what the class says."""
        assert 0 <= self.log_start_offset <= self.high_watermark <= self.log_end_offset, str(self)
        assert 0 <= self.recovery_point <= self.log_end_offset, str(self)

    def __str__(self) -> str:
        return (
            f"{self.log_start_offset}..{self.log_end_offset}, committed to {self.high_watermark}, "
            f"on the disk to {self.recovery_point}"
        )

    def start_at(self, offset: int) -> None:
        """Give up what is below."""
        assert self.log_start_offset <= offset
        self.log_start_offset = offset
        self.check()

    def flushed(self, up_to: int, lineage: int) -> None:
        """What was appended below `up_to` in this lineage is on the disk."""
        if lineage == self.lineage:
            self.recovery_point = max(self.recovery_point, up_to)
            self.check()

    def claim_no_more_than(self, offset: int) -> None:
        """Before a truncation to `offset`, for a checkpoint that must be true of what it will leave."""
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.check()

    def end_at(self, offset: int) -> None:
        """The log was cut, perhaps in front of what was claimed."""
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.lineage += 1
        self.check()

    def begin_anew_at(self, offset: int) -> None:
        """Nothing of the log is left; it goes on from `offset`, which may be behind its former end."""
        self.log_start_offset = self.high_watermark = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.lineage += 1
        self.check()
