"""What became of numbered records: seen once and in order, or not. Pure."""


class Ledger:
    """What one consumer has seen of one producer's numbers. One partition, so that order is total."""

    def __init__(self) -> None:
        self.sent = 0
        self.refused = 0
        """Records whose delivery failed, which the consumer need not see."""
        self.next_number = 0
        self.seen = self.missing = self.repeated = 0

    def see(self, number: int) -> None:
        """The consumer has a record."""
        self.seen += 1
        if number < self.next_number:
            self.repeated += 1
            return
        self.missing += number - self.next_number
        self.next_number = number + 1

    @property
    def lost(self) -> int:
        """Acknowledged records that the consumer has not seen: gaps, and what is missing at the end."""
        return max(0, self.missing + self.sent - self.next_number - self.refused)
