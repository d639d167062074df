"""What the controller tells this broker, carried out in the order it came, in turns.

Stale controllers and requests for an earlier life of this broker are refused whole (KIP-380).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import NamedTuple, assert_never

from kio.schema.errors import ErrorCode

from broker.cluster.membership import Membership
from broker.cluster.state_change_log import StateChangeLog
from broker.metadata.metadata_cache import MetadataCache
from broker.replicator.manager import ReplicaManager
from broker.storage.jobs import CreationJob
from contracts.cluster import (
    Command,
    CommandResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from runtime.logs import get_logger

_log = get_logger(__name__)
Answer = Callable[[CommandResponse], None]
Steps = Generator[CreationJob | None, None, CommandResponse]


class _Waiting(NamedTuple):
    request: Command
    steps: Steps
    answer: Answer


class CommandReceiver:
    """The one way of commands into this broker, from its own controller and from another's connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        membership: Membership,
        metadata: MetadataCache,
        replica_manager: ReplicaManager,
        state_changes: StateChangeLog,
    ) -> None:
        self._membership = membership
        self._metadata = metadata
        self._replica_manager = replica_manager
        self._state_changes = state_changes
        self._loop = loop
        self.controller_epoch = -1
        """Of the latest controller that has spoken."""
        self._queue: deque[_Waiting] = deque()

    def receive(self, request: Command, answer: Answer) -> None:
        """Carry a command out after those before it, then answer."""
        self._queue.append(_Waiting(request, self._steps(request), answer))
        if len(self._queue) == 1:
            self._turn()

    async def deliver(self, request: Command) -> CommandResponse:
        """The same for the controller of this process."""
        answered: asyncio.Future[CommandResponse] = self._loop.create_future()

        def answer(response: CommandResponse) -> None:
            if not answered.done():
                answered.set_result(response)

        self.receive(request, answer)
        return await answered

    def _turn(self) -> None:
        """Take a step of the first command; clients are served before the next one."""
        waiting = self._queue[0]
        try:
            job = next(waiting.steps)
        except StopIteration as end:
            response: CommandResponse = end.value
        except Exception:  # noqa: BLE001 - a bug costs one command: the controller hears of it and goes on
            _log.exception("a command failed", command=type(waiting.request).__name__)
            response = _refused(waiting.request, ErrorCode.unknown_server_error)
        else:
            if job is None:
                self._loop.call_soon(self._turn)
            else:
                self._loop.run_in_executor(None, job.run).add_done_callback(lambda _: self._turn())
            return
        self._queue.popleft()
        self._state_changes.received(waiting.request, response)
        waiting.answer(response)
        if self._queue:
            self._loop.call_soon(self._turn)

    def _steps(self, request: Command) -> Steps:
        refusal = self._refusal(request)
        if refusal is not ErrorCode.none:
            return _refused(request, refusal)
        self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                self._metadata.note_shutdowns(request.live_brokers)
                return (yield from self._replica_manager.leader_and_isr(request))
            case StopReplicaRequest():
                return (yield from self._replica_manager.stop_replica(request))
            case UpdateMetadataRequest():
                self._metadata.apply(request)
                return UpdateMetadataResponse()
            case _ as unreachable:
                assert_never(unreachable)

    def _refusal(self, request: Command) -> ErrorCode:
        # A broker that is just registering may hear from the controller before it knows its new epoch.
        if request.broker_epoch < self._membership.last_epoch:
            return ErrorCode.stale_broker_epoch
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        return ErrorCode.none


def _refused(request: Command, error_code: ErrorCode) -> CommandResponse:
    code = int(error_code.value)
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(error_code=code)
        case StopReplicaRequest():
            return StopReplicaResponse(error_code=code)
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(error_code=code)
        case _ as unreachable:
            assert_never(unreachable)
