"""What handlers may ask of others than their request, by name. Whoever hosts a session does it (`outside`).

Only work that waits gets these: `Later` of `call`. Everything here may raise ConnectionStop.
"""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from uuid import UUID

from kio.static.protocol import Payload

from contracts.access_orders import AccessAnswer, AccessOrder
from contracts.charging import ChargeRequest
from wire.api_table import Served


class Charges(Protocol):
    """The account of what is answered here."""

    async def charge(self, request: ChargeRequest) -> int:
        """Have it charged; answers throttle_time_ms, when the instance's turn has come."""


class AsksVersions(Protocol):
    """What the client's broker serves."""

    async def versions(self) -> Served:
        """Ask it; one that restarts is waited for."""


class AsksBrokers(Protocol):
    """Requests of our own in the tenant's place and names."""

    async def ask_any(self, request: Payload) -> Any:
        """The answer of whichever broker answers first."""


class Pauses(Protocol):
    """Answers that leave later."""

    async def pause(self, wait_ms: int) -> None:
        """So much time passes; the client is not read meanwhile."""


class AnswersInPortions(AsksBrokers, Pauses, Protocol):
    """Requests whose answers are many times themselves: asked and answered in portions."""

    def in_portions(self, entries: int) -> AbstractAsyncContextManager[None]:
        """One of the instance at a time on this worker; of those that wait so many entries are kept."""


class LooksUpTopics(Protocol):
    """Whose topics ids are of."""

    async def look_up_topics(self, topic_ids: Collection[UUID]) -> None:
        """Ask the cluster; what it says is in the instance's `topic_ids` then."""


class ChangesPartitions(Protocol):
    """Requests that add partitions: counted and carried out one at a time per instance.

    Passed through, a hundred of them at once would all see the same count, and the limit would be none.
    """

    def changing_partitions(self) -> AbstractAsyncContextManager[None]:
        """One request of the instance at a time on this worker."""

    async def partition_counts(self) -> dict[str, int]:
        """Partitions of every topic of the instance."""

    async def partitions_of(self, names: Collection[str]) -> dict[str, int]:
        """Partitions of those of these topics that are there."""

    async def ask_controller(self, request: Payload) -> Any:
        """The controller's answer to a request, both in the tenant's names."""


class ChangesWithinRate(ChangesPartitions, Pauses, Protocol):
    """What requests need that create or delete partitions: those of old clients wait for the rate."""


class RefusesProduce(Charges, Pauses, Protocol):
    """What refused Produce requests need."""


class ChangesAccess(Protocol):
    """Users and ACLs of the instance, which the control plane keeps."""

    async def change_access(self, order: AccessOrder) -> AccessAnswer:
        """Have it changed, one order of the instance at a time; back when this worker goes by it."""


class EntersEngine(Protocol):
    """A broker that is not ours, which has enough before it of this instance."""

    async def engine_room(self, cost_us: int) -> None:
        """Back when there is room for so much, and it is taken."""


class Deps(
    Charges,
    AsksVersions,
    AnswersInPortions,
    ChangesPartitions,
    LooksUpTopics,
    ChangesAccess,
    Pauses,
    EntersEngine,
    Protocol,
):
    """All of it: what a host has to bring."""
