"""ElectLeaders (43), v0-2 (KIP-183, KIP-460).

Behaviour: the controller makes preferred replicas leaders again (type 0), or elects leaders out of sync where
no replica in sync is left (type 1); other brokers answer NOT_CONTROLLER. Null asks for every partition that
needs it, and names only these.
Versions: v1 election type and top-level error; v2 flexible.
"""

from itertools import groupby
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.controller.api import ControllerApi, ElectionKind, PartitionName, Verdict
from broker.net.later import Later
from broker.requests.call import Call
from wire.api_table import ApiKey
from wire.build import ResponseShape, response_shape
from wire.codec import duration, milliseconds


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    deps.later.answer(call, _answer(deps, call))


async def _answer(deps: _Deps, call: Call) -> None:
    request = call.request
    kind = getattr(request, "election_type", int(ElectionKind.PREFERRED))
    shape = response_shape(ApiKey.ELECT_LEADERS, call.api_version)
    if kind not in list(ElectionKind):
        _reply(call, shape, Verdict(ErrorCode.invalid_request, f"There is no election type {kind}."))
        return
    asked = request.topic_partitions
    named = None if asked is None else [(each.topic, index) for each in asked for index in each.partitions]
    outcome = await deps.controller.elect_leaders(
        ElectionKind(kind), named, timeout_ms=milliseconds(request.timeout)
    )
    if isinstance(outcome, Verdict) and call.api_version == 0 and named is not None:
        outcome = dict.fromkeys(named, outcome)  # v0 has no error of its own
    _reply(call, shape, outcome)


def _reply(call: Call, shape: ResponseShape, outcome: dict[PartitionName, Verdict] | Verdict) -> None:
    error_code = outcome.error_code if isinstance(outcome, Verdict) else ErrorCode.none
    verdicts = {} if isinstance(outcome, Verdict) else outcome
    results = tuple(
        shape.nested(
            "ReplicaElectionResult",
            topic=topic,
            partition_result=tuple(
                shape.nested(
                    "PartitionResult",
                    partition_id=name[1],
                    error_code=verdicts[name].error_code,
                    error_message=verdicts[name].message,
                )
                for name in names
            ),
        )
        for topic, names in groupby(sorted(verdicts), key=lambda name: name[0])
    )
    call.reply(shape.make(throttle_time=duration(0), error_code=error_code, replica_election_results=results))
