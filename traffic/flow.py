"""Meter and token bucket of one instance and direction on one traffic point.

Its unit is the direction's: bytes on the wire, or microseconds of CPU. The bucket counts thousandths of it,
so that rate * elapsed_ms is exact in integers.
"""

from typing import Final

from contracts.quota import FlowCounters

BURST_MS: Final = 250
"""What a bucket of bytes holds when full, and what one Fetch answer may take: this long of the rate."""
REPORTED_THROTTLE_MS_MAX: Final = 30_000
"""throttle_time_ms never says more; the channel stays unread until the debt is really paid."""
UNLIMITED: Final = 0


class Flow:
    """Counters that only grow, and a bucket that is charged after the fact.

    Invariant: level <= full. A negative level is debt of the whole instance: it is paid by time
    alone, whoever else connects. Rate UNLIMITED (no spec known: Portico's own traffic) only counts.
    """

    __slots__ = (
        "_at_ms",
        "_burst_min",
        "_burst_ms",
        "_full",
        "_level",
        "_owed",
        "overhead",
        "rate_per_s",
        "refused",
        "requests",
        "throttled_ms",
        "used",
    )

    def __init__(self, burst_ms: int = BURST_MS, burst_min: int = 0) -> None:
        """`burst_ms` of the rate are what the bucket holds when full, and never less than `burst_min`."""
        self._burst_ms = burst_ms
        self._burst_min = burst_min
        self.used = 0
        self.overhead = 0
        """Charged to the rate beside `used`, billed to nobody: see `spend`."""
        self.requests = 0
        self.refused = 0
        self.throttled_ms = 0
        """Time the bucket spent in debt."""
        self.rate_per_s: int = UNLIMITED
        self._at_ms = 0
        self._level = 0
        self._full = 0
        self._owed = 0
        """Thousandths charged so far."""

    def charge(self, amount: int, now_ms: int) -> int:
        """Count and charge one request; answers throttle_time_ms."""
        self.used += amount
        self.requests += 1
        return self._take(amount, now_ms)

    def spend(self, amount: int, now_ms: int) -> int:
        """Charge what is no frame of its own in a bill: what requests make the broker write, large Fetch
        requests, frames that were cut. Answers throttle_time_ms."""
        self.overhead += amount
        return self._take(amount, now_ms)

    def _take(self, amount: int, now_ms: int) -> int:
        rate = self.rate_per_s
        if rate == UNLIMITED:
            return 0
        if now_ms > self._at_ms:
            self.settle(now_ms)
        charged = amount * 1000
        self._owed += charged
        self._level = level = self._level - charged
        if level >= 0:
            return 0
        throttle_ms = -(level // rate)
        return throttle_ms if throttle_ms < REPORTED_THROTTLE_MS_MAX else REPORTED_THROTTLE_MS_MAX

    def reserve(self, amount: int, now_ms: int) -> int | None:
        """Charge a frame before it is carried; answers the ticket to wait for, None when nothing limits.

        The ticket names what was charged before, so those who reserve at one moment are carried one after
        the other. Afterwards `carry` or `release`.
        """
        if self.rate_per_s == UNLIMITED:
            return None
        ticket = self._owed
        self._take(amount, now_ms)
        return ticket

    def carry(self, ticket: int, reserved: int, amount: int, now_ms: int) -> int:
        """The frame reserved with `ticket` came to so many bytes: count it, set the charge right.

        Answers the ticket that is due when the frame itself is paid.
        """
        self.used += amount
        self.requests += 1
        if reserved != amount:
            self.release(reserved - amount, now_ms)
        return ticket + amount * 1000

    def release(self, amount: int, now_ms: int) -> None:
        """Give back what a reservation did not use (negative: charge what it lacked).

        Tickets taken before keep their place, and those taken since are due when they were: nobody is let
        through on bytes that were never owed.
        """
        self.settle(now_ms)
        released = amount * 1000
        self._owed -= released
        self._level = min(self._level + released, self._full)

    def settle(self, now_ms: int) -> None:
        """Add what time has earned. A clock that steps back earns nothing until it has caught up."""
        elapsed_ms = now_ms - self._at_ms
        rate = self.rate_per_s
        if elapsed_ms <= 0 or rate == UNLIMITED:
            return
        self._at_ms = now_ms
        level = self._level
        if level < 0:
            self.throttled_ms += min(elapsed_ms, -(level // rate))
        level += elapsed_ms * rate
        full = self._full
        self._level = level if level < full else full

    def set_rate(self, rate_per_s: int, now_ms: int) -> bool:
        """Apply another rate from now on, keeping the debt; whether it differs."""
        assert rate_per_s >= 0
        if rate_per_s == self.rate_per_s:
            return False
        full = max(rate_per_s * self._burst_ms, self._burst_min * 1000)
        if self.rate_per_s == UNLIMITED:
            self._at_ms = now_ms
            self._level = full
        else:
            self.settle(now_ms)
            self._level = min(self._level, full)
        self._full = full
        self.rate_per_s = rate_per_s
        return True

    @property
    def ticket(self) -> int:
        """Names everything charged so far: what is due before the connection charged last is read again."""
        return self._owed

    def unmute_at_ms(self, now_ms: int, ticket: int | None = None) -> int:
        """When everything charged up to `ticket` (None: so far) is paid at today's rate; `now_ms` if it is.

        A ticket lets the connections of a throttled instance come back one by one, in the order in which
        they were charged, instead of all at once when the last debt is paid.
        """
        rate = self.rate_per_s
        if rate == UNLIMITED:
            return now_ms
        self.settle(now_ms)
        level = self._level
        if ticket is not None:
            level += self._owed - ticket
        return now_ms if level >= 0 else self._at_ms - (level // rate)

    @property
    def debt(self) -> int:
        """What is still to be paid, as of the last settle, rounded up."""
        return -(self._level // 1000) if self._level < 0 else 0

    @property
    def balance(self) -> int:
        """What the bucket holds, as of the last settle, rounded down; negative: debt."""
        return self._level // 1000

    def counters(self, lease_epoch: int = 0) -> FlowCounters:
        """What a report tells of it."""
        return FlowCounters(
            used=self.used,
            overhead=self.overhead,
            requests=self.requests,
            throttled_ms=self.throttled_ms,
            refused=self.refused,
            rate_per_s=self.rate_per_s,
            lease_epoch=lease_epoch,
        )

    def resume(self, balance: int) -> None:
        """Start with what the bucket of the run before held: a restart earns no burst. Before any charge."""
        assert self._owed == 0
        self._level = min(balance * 1000, self._full)
