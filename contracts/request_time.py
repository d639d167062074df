"""Request time: the CPU time an instance bought, what it is by default, and the static share of a point.

Kafka's request quota (KIP-124) carried over to an instance in the whole cluster: `request_percent` is CPU
time in percent of one core, over all brokers and gateway workers together (ADR 0017). Rates are us of CPU per
second.
"""

from typing import Final

CORE_US_PER_S: Final = 1_000_000
PERCENT_US_PER_S: Final = CORE_US_PER_S // 100
REQUEST_PERCENT_MIN: Final = 5
REQUEST_PERCENT_MAX: Final = 100_000
"""The most that operators may give: a thousand cores."""
REQUEST_PERCENT_FLOOR: Final = 50
"""The least that is given by default: half a core, for connects, group work and Metadata at small rates."""
_DEFAULT_US_PER_MB: Final = 48_000
"""Requests of 16 kB cost gateway and broker 12 ms of CPU per MB together (docs/performance.md): four times
that, so that requests of 4 kB at the full rate of both directions are within it."""
_MB: Final = 1_000_000


def default_request_percent(produce_rate_bytes_per_s: int, consume_rate_bytes_per_s: int) -> int:
    """What goes with bought byte rates unless another figure was bought, rounded up."""
    carried = max(0, produce_rate_bytes_per_s) + max(0, consume_rate_bytes_per_s)
    derived = -(-carried * _DEFAULT_US_PER_MB // (_MB * PERCENT_US_PER_S))
    return min(REQUEST_PERCENT_MAX, max(REQUEST_PERCENT_FLOOR, derived))


class Weights:
    """The static shares of all points of one cluster for one instance.

    Half of T belongs to the brokers: each counts one, and one more per partition of the instance that it
    leads, because groups and metadata cost CPU where nothing is led. Half belongs to the gateway workers, to
    each the same. So every point at which the tenant may turn up has a share above zero, and all add up to T.
    """

    __slots__ = ("_brokers_total", "_gateways")

    def __init__(self, *, brokers: int, partitions: int, gateways: int) -> None:
        """`partitions` of the instance that the brokers lead. A group without members counts as one."""
        self._brokers_total = max(1, brokers) + max(0, partitions)
        self._gateways = max(1, gateways)

    @property
    def total(self) -> int:
        """Time of all points of both groups."""
        return 2 * self._gateways * self._brokers_total

    def broker(self, partitions_led: int) -> int:
        """The weight of one broker."""
        return (1 + partitions_led) * self._gateways

    @property
    def gateway(self) -> int:
        """The weight of one gateway worker."""
        return self._brokers_total
