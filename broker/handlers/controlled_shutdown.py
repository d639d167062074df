"""ControlledShutdown (7), v0: a broker that stops asks the controller to take its leaders.

Behaviour: as `contracts.cluster` says; a broker that is not the controller answers NOT_CONTROLLER. Served to
brokers of this cluster only, and not in ApiVersions.
"""

from typing import Protocol

import msgspec

from broker.controller.api import ControllerApi
from broker.net.later import Later
from broker.requests.call import Call
from contracts import cluster
from wire.faults import MalformedFrame


class _Deps(Protocol):
    controller: ControllerApi
    later: Later


def handle(call: Call, deps: _Deps) -> None:
    try:
        request = cluster.decode_request(call.header.api_key, call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    assert isinstance(request, cluster.ControlledShutdownRequest), "the others have a handler of their own"
    deps.later.answer(call, _answer(deps, call, request))


async def _answer(deps: _Deps, call: Call, request: cluster.ControlledShutdownRequest) -> None:
    call.reply_message(await deps.controller.controlled_shutdown(request))
