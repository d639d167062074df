"""A connection to another broker of this cluster, for the messages of `contracts.cluster`."""

from typing import Final

import msgspec

from broker.requests.login import PeerBroker
from contracts import cluster
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.network import Network

_VERSION: Final = 0


async def connect(
    address: cluster.LiveBroker, secret: str, me: PeerBroker, network: Network, *, timeout_s: float = 5.0
) -> KafkaConnection:
    """Connect and say which broker we are. Raises: KafkaUnavailable."""
    return await KafkaConnection.open(
        address.host,
        address.port,
        secret=secret,
        client_id=f"broker-{me.broker_id}",
        authorization_id=me.authorization_id,
        timeout_s=timeout_s,
        network=network,
    )


async def ask(
    connection: KafkaConnection, request: cluster.ClusterRequest, *, timeout_s: float = 30.0
) -> cluster.ClusterResponse:
    """Send a message and return its answer. Raises: KafkaUnavailable, and the connection is closed."""
    api_key = cluster.api_key_of(request)
    body = await connection.call_message(api_key, _VERSION, cluster.encode(request), timeout_s=timeout_s)
    try:
        return cluster.decode_response(api_key, body)
    except msgspec.MsgspecError as error:
        connection.close()
        raise KafkaUnavailable(f"the broker answered something else: {error}") from error
