"""Operations: what takes until gateways, brokers or a purge follow, and what has become of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from contracts.specs import ConsumerKind
from tenants.rules.acknowledgement import Consumer
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance

PURGE: Final = "instance.purge"
_SERVING: Final = ("instance.create", "instance.undelete", "instance.adopt", "instance.resume")
"""Over once the instance runs."""
_REMOVING: Final = ("instance.delete", "instance.discard")
_GONE: Final = (State.DELETED, State.PURGING, State.PURGED)
_FOLLOWING: Final = (ConsumerKind.GATEWAY, ConsumerKind.BROKER)


class OperationState(StrEnum):
    """How an operation stands. What has ended stays as it ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of an instance. `ended_at_ms` None: it runs; `error` None: nothing went wrong."""

    id: str
    tenant: str
    kind: str
    """The name that the audit log has."""
    instance_id: str
    revision: int
    """The revision that the change gave the instance."""
    started_at_ms: int
    ended_at_ms: int | None = None
    error: str | None = None

    @property
    def state(self) -> OperationState:
        """The state that is stored."""
        if self.ended_at_ms is None:
            return OperationState.RUNNING
        return OperationState.SUCCEEDED if self.error is None else OperationState.FAILED


class Followed(NamedTuple):
    """How many of the gateways and brokers that live have applied a revision."""

    done: int
    total: int
    gateways: int
    """Gateways that live."""


class Verdict(NamedTuple):
    """What has become of an operation; `error` None and `is_over`: it succeeded."""

    is_over: bool
    error: str | None = None


_RUNS: Final = Verdict(is_over=False)
_SUCCEEDED: Final = Verdict(is_over=True)


def followed(revision: int, consumers: Iterable[Consumer], now_ms: int) -> Followed:
    """`now_ms` is monotonic."""
    live = [one for one in consumers if one.kind in _FOLLOWING and one.is_live(now_ms)]
    return Followed(
        done=sum(one.applied_revision >= revision for one in live),
        total=len(live),
        gateways=sum(one.kind is ConsumerKind.GATEWAY for one in live),
    )


def judge(operation: Operation, instance: Instance, reached: Followed) -> Verdict:
    """Whether an operation is over, by its instance as it is now."""
    is_gone = instance.state in _GONE
    if operation.kind == PURGE:
        return _SUCCEEDED if instance.state is State.PURGED else _RUNS
    if is_gone and operation.kind not in _REMOVING:
        return Verdict(True, "the instance was deleted meanwhile")
    if instance.state is State.FAILED:
        return Verdict(True, instance.state_reason or "the instance failed")
    if operation.kind in _SERVING and instance.state in (State.RUNNING, State.CREATING):
        return _SUCCEEDED if instance.state is State.RUNNING else _RUNS
    has_all = reached.gateways > 0 and reached.done == reached.total
    return _SUCCEEDED if has_all else _RUNS
