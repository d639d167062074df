"""What one request takes of its instance's controller mutation quota, by Kafka's rules (KIP-599).

Strict: while the instance is in debt an entry is refused with THROTTLING_QUOTA_EXCEEDED, others go on, and
the client comes back with it. Permissive, for versions that clients speak who do not know that error:
everything goes on, and the client is told to wait. Either way its connection is not read for the time that
the answer says.

Beside Kafka's rules: what is permissive begins only when the instance is out of debt. A connection that is
not read costs who opens another one nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from contracts.topic_policy import mutation_rate_fault
from gateway.session.call import Call
from gateway.session.deps import ChangesWithinRate
from traffic.flow import REPORTED_THROTTLE_MS_MAX
from wire.api_table import ApiKey
from wire.codec import duration

Response = TypeVar("Response", bound=Payload)
_STRICT_FROM: Final[Mapping[int, int]] = {
    ApiKey.METADATA: 0,  # what is missing is answered as missing, and asked for again
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DELETE_TOPICS: 5,
}
_GOES_ON: Final = (ErrorCode.none, ErrorCode.request_timed_out)


class MutationQuota:
    """Of one request; its entries go by a topic's name."""

    __slots__ = ("_call", "_charged", "_is_strict", "_only_looks", "_wait_ms", "throttle_ms")

    def __init__(self, call: Call, *, only_looks: bool = False) -> None:
        """`only_looks`: nothing is created, and nothing costs."""
        self._call = call
        self._charged: Counter[str] = Counter()
        self._only_looks = only_looks
        self._is_strict = call.api_version >= _STRICT_FROM[call.api_key]
        self._wait_ms = call.mutations.wait_ms() if self._is_strict and not only_looks else 0
        self.throttle_ms = 0
        """What the answer says; 0: the request was within the rate."""

    def admits(self, topic: str, partitions: int) -> bool:
        """Charge an entry that creates or deletes so many; False: it is refused."""
        if self._only_looks or not partitions:
            return True
        mutations = self._call.mutations
        if self._wait_ms:
            mutations.refuse(partitions)
            self.throttle_ms = min(REPORTED_THROTTLE_MS_MAX, self._wait_ms)
            return False
        mutations.charge(partitions)
        self._charged[topic] += partitions
        wait_ms = mutations.wait_ms()
        if self._is_strict:
            self._wait_ms = wait_ms
        else:
            self.throttle_ms = min(REPORTED_THROTTLE_MS_MAX, wait_ms)
        return True

    @property
    def held_back_ms(self) -> int:
        """How long the request waits before anything of it is done, and asks again then."""
        return 0 if self._is_strict or self._only_looks else self._call.mutations.wait_ms()

    @property
    def is_spent(self) -> bool:
        """Whether all that creates or deletes something is refused: no more need be known for that."""
        return self._wait_ms > 0

    @property
    def refusal(self) -> str:
        """What a refused entry's message says."""
        return mutation_rate_fault(self._call.spec.limits, self.throttle_ms)

    def settle(self, results: Iterable[tuple[str | None, ErrorCode]]) -> None:
        """The cluster has said what became of the entries: what it refuses costs nothing."""
        failed = {topic for topic, error_code in results if error_code not in _GOES_ON}
        given_back = sum(self._charged.pop(topic, 0) for topic in failed if topic is not None)
        if given_back:
            self._call.mutations.give_back(given_back)

    def told(self, response: Response) -> Response:
        """The response, which says how long the client is to wait; its connection does."""
        if not self.throttle_ms:
            return response
        self._call.mute(self.throttle_ms)
        of_cluster = getattr(response, "throttle_time", duration(0))
        return replace(response, throttle_time=max(of_cluster, duration(self.throttle_ms)))


@asynccontextmanager
async def within_rate(
    call: Call, deps: ChangesWithinRate, *, only_looks: bool = False
) -> AsyncIterator[MutationQuota]:
    """The request's turn among those of the instance that add partitions."""
    while True:
        async with deps.changing_partitions():
            quota = MutationQuota(call, only_looks=only_looks)
            wait_ms = quota.held_back_ms
            if not wait_ms:
                yield quota
                return
        await deps.pause(wait_ms)
