"""What a worker is to the sessions of one instance: clock, turns and counts (`session/surroundings.py`)."""

from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.apis import APIS
from gateway.backend import Backend
from gateway.mutation_bucket import MutationBucket
from gateway.served import ServedInstance
from gateway.session.ordering import Exchange
from runtime.durations import Durations, durations, observe
from runtime.pacing import Pacing


class AnswerTimes:
    """What a worker's requests took, by API."""

    def __init__(self) -> None:
        self.by_brokers: Final[dict[int, Durations]] = {key: durations() for key in APIS}
        """From a request that is here to the reply that was passed on whole."""
        self.by_gateway: Final[dict[int, Durations]] = {key: durations() for key in APIS}
        """The same of what the gateway answers itself."""
        self.in_queue: Final[dict[int, Durations]] = {key: durations() for key in APIS}
        """Before that, of requests whose instance had to wait for its turn."""
        self.told_throttle_ms: Final[dict[int, int]] = dict.fromkeys(APIS, 0)
        """What this worker has told clients to wait for their request time."""


class InstanceHost:
    """Of one instance on one worker, for all its sessions."""

    __slots__ = ("_backend", "_pacing", "_served", "_times", "mutations", "now_ms", "turn_is_over")

    def __init__(
        self,
        served: ServedInstance,
        pacing: Pacing,
        times: AnswerTimes,
        backend: Callable[[str], Backend],
        now_ms: Callable[[], int],
        mutations: MutationBucket,
    ) -> None:
        self.now_ms: Callable[[], int] = now_ms
        """The time, monotonic."""
        self.mutations = mutations
        """The rate at which the instance creates and deletes partitions."""
        self._served = served
        self._pacing = pacing
        self._times = times
        self._backend = backend
        self.turn_is_over: Callable[[], bool] = partial(pacing.is_over, served.turn)
        """Whether the instance has used up its turn."""

    @property
    def cluster(self) -> Backend:
        """Where the instance lives."""
        return self._backend(self._served.spec.cluster_id)

    def throttle_ms(self, api_key: int) -> int:
        """throttle_time_ms of a reply that leaves now: the instance is in debt, or its tenant wants to be
        told so."""
        throttle_ms = self._pacing.throttle_ms(self._served.turn)
        faults = self._served.faults
        if faults is not None:
            throttle_ms = max(throttle_ms, faults.throttle_ms(self.now_ms()))
        self._times.told_throttle_ms[api_key] += throttle_ms
        return throttle_ms

    def waited(self, api_key: int, waited_ns: int) -> None:
        """A request had to wait for the instance's turn."""
        observe(self._times.in_queue[api_key], waited_ns)

    def spends(self, spent_us: int) -> None:
        """A broker's threads work for the instance about so long, and nobody there holds it to its share."""
        self._pacing.add_helper_time(self._served.turn, spent_us * 1000)

    def answered_here(self, exchange: Exchange) -> None:
        """The answer to a request is made, without a broker."""
        observe(self._times.by_gateway[exchange.api_key], self._pacing.clock_ns() - exchange.began_ns)
