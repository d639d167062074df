"""Requests that add partitions: counted and carried out one at a time per instance, on our own connection.

Passed through, a hundred of them at once would all see the same count, and the limit would be none.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.call import Call
from gateway.causes import DisconnectCause
from gateway.stops import ConnectionStop
from runtime.kafka_client import KafkaUnavailable
from wire.rewrite import rewrite_request, rewrite_response


@asynccontextmanager
async def changing_partitions(call: Call) -> AsyncIterator[None]:
    """One request of the instance at a time on this worker.

    Raises: ConnectionStop when the backend does not answer in the block.
    """
    async with call.served.partition_changes:
        try:
            yield
        except KafkaUnavailable as error:
            raise ConnectionStop(DisconnectCause.UPSTREAM_UNREACHABLE, str(error)) from error


@asynccontextmanager
async def partitions_counted(call: Call) -> AsyncIterator[dict[str, int]]:
    """Partitions of every topic of the instance, which nobody of this worker changes meanwhile.

    Raises: ConnectionStop when the backend does not answer, here or in the block.
    """
    async with changing_partitions(call):
        yield await call.backend.partition_counts(call.spec.instance_id)


async def ask_controller(call: Call, request: Any) -> Any:
    """The controller's answer to a tenant's request, in the tenant's names. Raises: KafkaUnavailable."""
    served = call.served
    answer = await call.backend.ask_controller(rewrite_request(request, served.scope))
    return rewrite_response(answer, served.scope, served.view)
