"""An in-process Kafka broker for gateway tests: real sockets and frames, answers a test can take over.

It knows topics and their partition counts, records every request, and answers what nobody intercepts with
the emptiest legal response. `intercept(api_key, fn)` answers with an entity, raw frame bytes, or None for
no reply at all.
"""

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from kio.schema.errors import ErrorCode

from gateway.apis import APIS
from wire.api_table import ApiKey
from wire.build import response
from wire.codec import (
    decode,
    framed_response,
    is_flexible,
    parse_request_header,
    request_class,
)

NODE_ID = 1
_BY_ID_FROM = 12
_OURS_FROM = 20_000
"""Keys of requests that are not Kafka's."""
_FRAME_BYTES_MAX = 256 * 1024 * 1024
"""No request is so large: something else than Kafka's protocol."""
GATEWAY_CLIENT_ID = "portico-gateway"
_OWN_APIS = (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def topic_id_of(name: str) -> UUID:
    """The id of a fake broker's topic."""
    return uuid5(NAMESPACE_OID, name)


class Received(NamedTuple):
    """One request as the broker got it."""

    api_key: int
    api_version: int
    client_id: str | None
    correlation_id: int
    frame: bytes
    """Without length prefix."""

    @property
    def is_own(self) -> bool:
        """Whether the gateway asks for itself, not in a tenant's place."""
        return self.client_id == GATEWAY_CLIENT_ID and self.api_key in _OWN_APIS

    @property
    def request(self) -> Any:
        """Decoded."""
        header = parse_request_header(self.frame, is_flexible(self.api_key, self.api_version))
        return decode(request_class(self.api_key, self.api_version), self.frame, header.body_at)


Interceptor = Callable[[Received], Any]


class FakeBroker:
    """One broker on a port of loopback."""

    def __init__(self) -> None:
        self.port = 0
        self.topics: dict[str, int] = {}
        self.received: list[Received] = []
        self.connections = 0
        self.resets = 0
        """Connections that ended otherwise than by the end of a stream behind whole frames."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._interceptors: dict[int, Interceptor] = {}
        self._own_interceptors: dict[int, Interceptor] = {}
        self._server: asyncio.Server | None = None

    def intercept(self, api_key: int, answer: Interceptor) -> None:
        """Answer this API's requests with what `answer` returns."""
        self._interceptors[int(api_key)] = answer

    def intercept_own(self, api_key: int, answer: Interceptor) -> None:
        """The same for the gateway's own requests, its login among them."""
        self._own_interceptors[int(api_key)] = answer

    def push(self, frame: bytes) -> None:
        """Send a frame on every connection, asked or not."""
        for writer in self._writers:
            writer.write(frame)

    def of(self, api_key: int) -> list[Received]:
        """The requests of one API, the gateway's own control requests left out."""
        return [one for one in self.received if one.api_key == api_key and not one.is_own]

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=2**24, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Drop everybody and stop listening."""
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await self._server.wait_closed()

    def drop_connections(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if size > _FRAME_BYTES_MAX:
                    break
                frame = await reader.readexactly(size)
                reply = self._answer(frame)
                if reply is not None:
                    writer.write(reply)
                    await writer.drain()
        except asyncio.IncompleteReadError as end:
            self.resets += bool(end.partial)
        except ConnectionError:
            self.resets += 1
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: bytes) -> bytes | None:
        api_key, api_version = struct.unpack_from(">hh", frame)
        flexible = api_key < _OURS_FROM and is_flexible(api_key, api_version)
        header = parse_request_header(frame, flexible)
        received = Received(api_key, api_version, header.client_id, header.correlation_id, frame)
        self.received.append(received)
        own = received.is_own
        interceptor = (self._own_interceptors if own else self._interceptors).get(api_key)
        answer = self._default(received) if interceptor is None else interceptor(received)
        if answer is None or isinstance(answer, bytes):
            return answer
        return framed_response(answer, received.correlation_id)

    def _default(self, received: Received) -> Any:
        key, version = received.api_key, received.api_version
        if key == ApiKey.API_VERSIONS:
            offers = [
                {
                    "api_key": int(row.key),
                    "min_version": row.versions.lowest if row.legacy_lowest is None else row.legacy_lowest,
                    "max_version": row.versions.highest,
                }
                for row in APIS.values()
            ]
            return response(key, version, api_keys=offers)
        if key == ApiKey.METADATA:
            return self._metadata(received)
        if key == ApiKey.CREATE_TOPICS:
            return self._create(received)
        if key == ApiKey.PRODUCE and received.request.acks == 0:
            return None
        return response(key, version)

    def _metadata(self, received: Received) -> Any:
        asked = received.request.topics
        names = list(self.topics) if asked is None else []
        topics = []
        known = {topic_id_of(name): name for name in self.topics}
        for topic in asked or ():
            topic_id = topic.topic_id if received.api_version >= _BY_ID_FROM else None
            name = topic.name if topic_id is None else known.get(topic_id)
            if name is not None:
                names.append(name)
            else:
                topics.append({"name": None, "topic_id": topic_id, "error_code": ErrorCode.unknown_topic_id})
        for name in names:
            present = name in self.topics
            error = ErrorCode.none if present else ErrorCode.unknown_topic_or_partition
            partitions = [
                {
                    "partition_index": index,
                    "leader_id": NODE_ID,
                    "replica_nodes": [NODE_ID],
                    "isr_nodes": [NODE_ID],
                }
                for index in range(self.topics.get(name, 0))
            ]
            topic_id = topic_id_of(name) if present else None
            topics.append({"name": name, "topic_id": topic_id, "error_code": error, "partitions": partitions})
        return response(
            received.api_key,
            received.api_version,
            brokers=[{"node_id": NODE_ID, "host": "broker.internal", "port": 9092, "rack": "r1"}],
            cluster_id="physical-cluster",
            controller_id=NODE_ID,
            topics=topics,
        )

    def _create(self, received: Received) -> Any:
        created = []
        for topic in received.request.topics:
            self.topics[topic.name] = max(1, topic.num_partitions)
            created.append({"name": topic.name, "num_partitions": self.topics[topic.name]})
        return response(received.api_key, received.api_version, topics=created)
