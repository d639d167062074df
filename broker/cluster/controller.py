"""The controller of one broker: stands for election, and runs the core while it holds the office."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from broker.cluster.controller_channel import Channels, Deliver
from broker.cluster.controller_driver import Driver
from broker.cluster.state_change_log import StateChangeLog
from broker.controller import events
from broker.controller.api import (
    CreatedTopic,
    DeletedTopicName,
    DeletionOutcome,
    ElectionKind,
    NewPartitions,
    NewTopic,
    PartitionName,
    Verdict,
)
from broker.controller.context import LimitsOf, no_limits
from broker.controller.controller_config import ControllerConfig
from broker.controller.core import ControllerCore
from broker.metadata.znode_paths import CONTROLLER, CONTROLLER_EPOCH
from broker.metadata.znodes import Assignment, ZnodeDamaged, decode_controller, encode_controller
from contracts.cluster import (
    Command,
    CommandResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from contracts.tree import Node, Tree
from runtime.logs import get_logger
from runtime.machine import THIS_MACHINE, Machine
from runtime.tree.election import Election, Office

_log = get_logger(__name__)
_TICK_S: Final = 1.0
_OTHERS_TOLD_S: Final = 1.0
"""How long an answer waits for other brokers to hear of the change: a slow one must not hold up clients."""
_NOT_CONTROLLER: Final = Verdict(
    ErrorCode.not_controller, "This is not the correct controller for this cluster."
)
_TIMED_OUT: Final = Verdict(ErrorCode.request_timed_out, "The change is still being made.")

Result = TypeVar("Result")


class Controller:
    """Implements `ControllerApi`. All methods are for the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        tree: Tree,
        *,
        secret: str | None,
        deliver: Deliver,
        state_changes: StateChangeLog,
        limits_of: LimitsOf = no_limits,
        controller_changed: Callable[[int], None] = lambda _broker_id: None,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        """`deliver` carries out a command to this broker itself; `limits_of` knows what the instance of a
        topic was sold; `controller_changed` hears who is controller, -1 for nobody."""
        self._broker_id = broker_id
        self._now_ms = machine.clock.monotonic_ms
        self._core = ControllerCore(broker_id, config, machine.random.randrange, machine.uuid4, limits_of)
        self._channels = Channels(broker_id, secret, deliver, self._broker_answered, machine.network)
        self._driver = Driver(
            self._core,
            tree,
            self._channels,
            state_changes,
            answered=self._answered,
            failed=self._end_term_early,
            now_ms=machine.clock.monotonic_ms,
        )
        self._election = Election(
            tree,
            CONTROLLER,
            CONTROLLER_EPOCH,
            data=lambda: encode_controller(broker_id, machine.clock.epoch_ms()),
            elected=self._elected,
            lost=self._lost,
            leader_changed=self._leader_changed,
        )
        self._controller_changed = controller_changed
        self._controller_id = -1
        self._call_ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Stand for election. The tree is started and has its lasting nodes."""
        self._tasks = [
            asyncio.create_task(self._driver.run(), name="controller"),
            asyncio.create_task(self._tick(), name="controller ticks"),
        ]
        self._election.start()

    async def aclose(self) -> None:
        """Leave; another broker is elected at once."""
        await self._election.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._channels.close()

    @property
    def core(self) -> ControllerCore:
        """For metrics: what the controller knows. Reading only."""
        return self._core

    # -- the office --------------------------------------------------------------------------------------

    def _elected(self, office: Office) -> None:
        self._driver.end_term()
        self._driver.post(events.Elected(office.epoch, office.epoch_version))

    def _lost(self) -> None:
        self._end_term()
        asyncio.get_running_loop().call_soon(self._election.stand)

    def _end_term_early(self) -> None:
        """The tree was unavailable, or another controller's epoch was found: read everything anew."""
        self._end_term()
        if self._election.office is not None:
            self._election.resign()

    def _end_term(self) -> None:
        self._driver.end_term()
        for call_id in list(self._calls):
            self._answered(call_id, None)

    def _leader_changed(self, node: Node | None) -> None:
        try:
            self._controller_id = -1 if node is None else decode_controller(node.data)
        except ZnodeDamaged as error:
            _log.error("the controller's node cannot be read", cause="node_damaged", reason=str(error))
            self._controller_id = -1
        self._controller_changed(self._controller_id)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if self._core.is_active:
                self._driver.post(events.Tick())

    def _broker_answered(self, broker_id: int, request: Command, response: CommandResponse) -> None:
        self._driver.post(events.Answered(broker_id, request, response))

    # -- calls -------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller and has taken over."""
        return self._core.is_active

    @property
    def controller_id(self) -> int:
        """The broker that is controller as far as this one knows, or -1."""
        return self._controller_id

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[CreatedTopic]:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.CreateTopics(call_id, topics, validate_only),
            lambda verdict: [CreatedTopic(verdict)] * len(topics),
            timeout_ms,
        )

    async def delete_topics(
        self, topics: Sequence[DeletedTopicName], *, timeout_ms: int = 30_000
    ) -> list[DeletionOutcome]:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.DeleteTopics(call_id, topics),
            lambda verdict: [DeletionOutcome(verdict, each.name, each.topic_id) for each in topics],
            timeout_ms,
        )

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[Verdict]:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.CreatePartitions(call_id, topics, validate_only),
            lambda verdict: [verdict] * len(topics),
            timeout_ms,
        )

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Sequence[PartitionName] | None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Verdict] | Verdict:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.ElectLeaders(call_id, kind, partitions),
            lambda verdict: verdict,
            timeout_ms,
        )

    async def alter_reassignments(
        self, targets: Mapping[PartitionName, tuple[int, ...] | None], *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Verdict] | Verdict:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.AlterReassignments(call_id, targets),
            lambda verdict: verdict,
            timeout_ms,
        )

    async def list_reassignments(
        self, partitions: Sequence[PartitionName] | None, *, timeout_ms: int = 30_000
    ) -> dict[PartitionName, Assignment] | Verdict:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.ListReassignments(call_id, partitions),
            lambda verdict: verdict,
            timeout_ms,
        )

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest, *, timeout_ms: int = 10_000
    ) -> ControlledShutdownResponse:
        """See ControllerApi."""
        return await self._call(
            lambda call_id: events.ControlledShutdown(call_id, request),
            lambda verdict: ControlledShutdownResponse(error_code=verdict.error_code.value),
            timeout_ms,
        )

    async def _call(
        self,
        event: Callable[[int], events.Event],
        refused: Callable[[Verdict], Result],
        timeout_ms: int,
    ) -> Result:
        """Post a call, wait for its answer and for the brokers to have heard. `refused` makes an answer of
        a verdict about all of it."""
        if not self._core.is_active:
            return refused(_NOT_CONTROLLER)
        deadline_ms = self._now_ms() + max(timeout_ms, 0)
        call_id = next(self._call_ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = future
        try:
            self._driver.post(event(call_id))
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                answer = await future
                if answer is None:
                    return refused(_NOT_CONTROLLER)
                left_s = max(0.0, (deadline_ms - self._now_ms()) / 1000)
                await self._channels.told(min(left_s / 2, _OTHERS_TOLD_S))
        except TimeoutError:
            return refused(_TIMED_OUT)
        finally:
            del self._calls[call_id]
        result: Result = answer
        return result

    def _answered(self, call_id: int, result: Any) -> None:
        future = self._calls.get(call_id)
        if future is not None and not future.done():
            future.set_result(result)
