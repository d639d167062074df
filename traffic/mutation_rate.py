"""How many partitions an instance may create and delete: Kafka's controller mutation quota (KIP-599). Pure.

The token bucket is one number, the time at which it is full: what is charged moves it on. So gateway workers
share a bucket by sharing a number, and one that nobody has is a full one. As in Kafka, whoever finds the
bucket not in debt may take more than is in it: a topic of any size can be made, and is paid for afterwards.
"""

from typing import Final, NamedTuple

WINDOWS: Final = 11
"""Seconds of its rate that a bucket holds: Kafka's `controller.quota.window.num`, of one second each."""
_SECOND_US: Final = 1_000_000


class MutationRate(NamedTuple):
    """What an instance may do at the gateway workers of one machine: its rate in the part of workers that are
    there, and a whole burst."""

    bought_per_s: int
    """Partitions created and deleted, `controller_mutation_rate_max`."""
    workers_here: int = 1
    workers: int = 1
    """Of all machines."""

    @property
    def burst(self) -> int:
        """Partitions that a full bucket has room for."""
        return self.bought_per_s * WINDOWS

    def time_us(self, partitions: int) -> int:
        """How long so many take to be paid."""
        return partitions * _SECOND_US * self.workers // (self.bought_per_s * self.workers_here)

    def wait_us(self, full_at_us: int, now_us: int) -> int:
        """How long until the bucket is out of debt; 0: it is not in debt."""
        return max(0, full_at_us - now_us - self.time_us(self.burst))

    def wait_ms(self, full_at_us: int, now_us: int) -> int:
        """The same, a begun millisecond whole."""
        return -(-self.wait_us(full_at_us, now_us) // 1000)

    def charged(self, full_at_us: int, partitions: int, now_us: int) -> int:
        """When the bucket is full, with so many more."""
        return max(full_at_us, now_us) + self.time_us(partitions)

    def given_back(self, full_at_us: int, partitions: int) -> int:
        """When it is full, with so many less: they were charged, and nothing has come of them."""
        return full_at_us - self.time_us(partitions)
