"""LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6), v0: the controller's commands.

Behaviour: carried out and answered in the order they come. Bodies are messages of `contracts.cluster`, not
Kafka's. Served to brokers of this cluster only, and not in ApiVersions.
"""

from typing import Protocol

import msgspec

from broker.cluster.commands import CommandReceiver
from broker.requests.call import Call
from contracts import cluster
from wire.faults import MalformedFrame


class _Deps(Protocol):
    commands: CommandReceiver


def handle(call: Call, deps: _Deps) -> None:
    try:
        request = cluster.decode_request(call.header.api_key, call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    assert not isinstance(request, cluster.ControlledShutdownRequest), "has a handler of its own"
    deps.commands.receive(request, call.reply_message)
