"""ControlledShutdown (7), v0: a broker that stops asks the controller to take its leaders.

Behaviour: as `contracts.cluster` says; a broker that is not the controller answers NOT_CONTROLLER. Served to
brokers of this cluster only, and not in ApiVersions.
"""

from typing import TYPE_CHECKING

import msgspec

from contracts import cluster
from wire.faults import MalformedFrame

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.requests.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Ask the controller."""
    try:
        request = cluster.decode_request(call.header.api_key, call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    assert isinstance(request, cluster.ControlledShutdownRequest), "the others have a handler of their own"
    broker.later(call, _answer(broker, call, request))


async def _answer(broker: "Broker", call: "Call", request: cluster.ControlledShutdownRequest) -> None:
    call.reply_message(await broker.controller.controlled_shutdown(request))
