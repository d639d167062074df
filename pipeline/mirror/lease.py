"""The lease of a mirror without transactions: being the leader of a group of its own at the target.

The group coordinator is the one thing that every Kafka has and that lets one of several win. Who holds the
lease writes only until a session timeout after its last heartbeat that was answered; who takes it from a dead
holder waits that long. So two never write at a time, also where one was stopped in the middle (ADR 0014).
"""

import threading
import time
from typing import Any, Final

from kio.schema.errors import ErrorCode

from pipeline.errors import PipelineError
from pipeline.mirror.cluster import GROUP, Cluster
from pipeline.mirror.planning.errors import KafkaError, Paused, Unreachable, expect_success
from wire.api_table import ApiKey

SESSION_MS: Final = 10_000
MARGIN_MS: Final = 2_000
"""Less than the session, for a write that is on its way."""
_HEARTBEAT_S: Final = 1.0
_PROTOCOL: Final = "mirror"
_HELD: Final = "another mirror of the same source holds the lease at the target: stop it first"
_AGAIN: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.rebalance_in_progress,
    }
)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Lease:
    """Held from `acquire` on, kept by a thread, told by `until_ms`."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._cluster = Cluster(bootstrap)
        self._group = group
        self._member_id = ""
        self._generation_id = -1
        self._until_ms = 0
        self._lost = ""
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True, name="mirror-lease")

    @property
    def until_ms(self) -> int:
        """Epoch ms up to which writes may leave. Raises: PipelineError where the lease is lost."""
        if self._lost:
            raise PipelineError(self._lost)
        return self._until_ms

    def acquire(self) -> None:
        """Become the only writer. Raises: PipelineError where somebody else is."""
        asked_ms = _now_ms()
        was_held = self._members() > 0
        try:
            self._join()
        except PipelineError:
            self.release()
            raise
        if was_held:
            time.sleep(max(0, asked_ms + SESSION_MS - _now_ms()) / 1000)
        self._heartbeat()
        self._keeper.start()

    def release(self) -> None:
        """Leave, so that the next one need not wait."""
        self._ended.set()
        if self._keeper.is_alive():
            self._keeper.join()
        try:
            self._call(ApiKey.LEAVE_GROUP, group_id=self._group, members=[{"member_id": self._member_id}])
        except (Unreachable, KafkaError) as error:
            self._lost = f"the lease ends by itself: {error}"
        self._cluster.close()

    def _call(self, api: ApiKey, **fields: Any) -> Any:
        connection = self._cluster.coordinator(self._group, GROUP)
        return self._cluster.call(connection, api, **fields)

    def _members(self) -> int:
        (group,) = self._call(ApiKey.DESCRIBE_GROUPS, groups=(self._group,)).groups
        return len(group.members)

    def _join(self) -> None:
        deadline = time.monotonic() + 4 * SESSION_MS / 1000
        while True:
            answer = self._call(
                ApiKey.JOIN_GROUP,
                group_id=self._group,
                session_timeout=SESSION_MS,
                rebalance_timeout=SESSION_MS,
                member_id=self._member_id,
                protocol_type=_PROTOCOL,
                protocols=[{"name": _PROTOCOL, "metadata": b""}],
            )
            self._member_id = answer.member_id
            if answer.error_code == ErrorCode.none:
                if answer.leader != answer.member_id:
                    raise PipelineError(_HELD)
                self._generation_id = answer.generation_id
                if self._sync() == ErrorCode.none:
                    return
            elif answer.error_code != ErrorCode.member_id_required and answer.error_code not in _AGAIN:
                expect_success(answer.error_code, "taking the lease at the target")
            if time.monotonic() > deadline:
                raise PipelineError("the lease at the target could not be taken: try again")

    def _sync(self) -> ErrorCode:
        answer = self._call(
            ApiKey.SYNC_GROUP,
            group_id=self._group,
            generation_id=self._generation_id,
            member_id=self._member_id,
            assignments=[{"member_id": self._member_id, "assignment": b""}],
        )
        if answer.error_code != ErrorCode.none and answer.error_code not in _AGAIN:
            expect_success(answer.error_code, "taking the lease at the target")
        return ErrorCode(answer.error_code)

    def _heartbeat(self) -> None:
        asked_ms = _now_ms()
        answer = self._call(
            ApiKey.HEARTBEAT,
            group_id=self._group,
            generation_id=self._generation_id,
            member_id=self._member_id,
        )
        if answer.error_code == ErrorCode.rebalance_in_progress:
            self._join()  # somebody else asks; who leads stays it, and wrote within its lease meanwhile
            return
        expect_success(answer.error_code, "keeping the lease at the target")
        self._until_ms = asked_ms + SESSION_MS - MARGIN_MS

    def _keep(self) -> None:
        while not self._ended.wait(_HEARTBEAT_S):
            try:
                self._heartbeat()
            except Unreachable:
                continue  # nothing is written once the session is over
            except (Paused, KafkaError, PipelineError) as error:
                self._lost = f"the lease at the target is lost: {error}"
                return
