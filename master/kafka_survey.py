"""What an Apache Kafka says of its instances' partitions, and of its client quotas, which are set here."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kio.schema.alter_client_quotas.v0.request import AlterClientQuotasRequest, OpData
from kio.schema.alter_client_quotas.v0.request import EntityData as AlteredEntity
from kio.schema.alter_client_quotas.v0.request import EntryData as AlteredEntry
from kio.schema.alter_client_quotas.v0.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v0.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v0.response import DescribeClientQuotasResponse
from kio.schema.describe_log_dirs.v1.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import f64, i8, i32
from kio.static.protocol import Payload

from contracts.names import owner_of
from contracts.request_time import PERCENT_US_PER_S
from contracts.specs import BrokerAddress, ClusterSpec
from master.quota.client_quotas import Change, Entity, Rates, entity_of
from runtime import kafka_listing
from runtime.kafka_client import KafkaConnection, KafkaUnavailable
from runtime.upstream import Upstreams

_CLIENT_ID: Final = "portico-master"
_TIMEOUT_S: Final = 4.0
_USER: Final = "user"
_CLIENT: Final = "client-id"
_PRODUCE: Final = "producer_byte_rate"
_CONSUME: Final = "consumer_byte_rate"
_REQUEST: Final = "request_percentage"
"""Of one thread, by network and request threads together."""
_FIRST_NAME: Final = "i"
_BEHIND_NAMES: Final = "j"
"""All instances' ids begin with the same letter: topics before and behind are not asked for."""
_EXACT: Final = i8(0)
_DEFAULT: Final = i8(1)
_ANY_NAME: Final = i8(2)

Response = TypeVar("Response", bound=Payload)
Partitions = dict[str, dict[int, int]]
"""Topic -> partition -> the node that leads it."""


class QuotasRefused(Exception):  # noqa: N818 - a verdict
    """The cluster answers, and does not let its client quotas be read or set; the sentence says why."""


class KafkaCluster:
    """One cluster, by kept connections. Whatever fails closes them: the next call opens new ones."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._spec = ClusterSpec(revision=0, cluster_id="")
        self._connections: dict[BrokerAddress, KafkaConnection] = {}

    def follow(self, spec: ClusterSpec) -> None:
        """Its brokers as they are registered now."""
        self._spec = spec
        for address in self._connections.keys() - set(spec.brokers):
            self._connections.pop(address).close()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}

    # -- what is led and stored ----------------------------------------------------------------------------

    async def leaders(self) -> Partitions:
        """Of every instance's partitions. Raises: KafkaUnavailable."""
        found: defaultdict[str, dict[int, int]] = defaultdict(dict)
        async for page in kafka_listing.pages(self._page, _FIRST_NAME):
            for topic in page.topics:
                if topic.name is not None and owner_of(topic.name) is not None:
                    found[topic.name] |= {
                        int(one.partition_index): int(one.leader_id) for one in topic.partitions
                    }
            if page.next_cursor is not None and page.next_cursor.topic_name >= _BEHIND_NAMES:
                break
        return dict(found)

    async def sizes(
        self, node_id: int, partitions: Mapping[str, Sequence[int]]
    ) -> dict[tuple[str, int], int]:
        """Bytes of logs on one broker. Raises: KafkaUnavailable."""
        topics = tuple(
            DescribableLogDirTopic(topic=TopicName(topic), partitions=tuple(map(i32, numbers)))
            for topic, numbers in partitions.items()
        )
        answer = await self._ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, node_id)
        return {
            (topic.name, int(one.partition_index)): int(one.partition_size)
            for directory in answer.results
            for topic in directory.topics
            for one in topic.partitions
            if not one.is_future_key
        }

    # -- quotas --------------------------------------------------------------------------------------------

    async def quotas(self) -> dict[Entity, Rates]:
        """What is set for instances. Raises: KafkaUnavailable, QuotasRefused."""
        user = self._spec.security.quota_user
        components = (
            ComponentData(entity_type=_USER, match_type=_DEFAULT if user is None else _EXACT, match=user),
            ComponentData(entity_type=_CLIENT, match_type=_ANY_NAME, match=None),
        )
        answer = await self._ask(
            DescribeClientQuotasRequest(components=components, strict=True), DescribeClientQuotasResponse
        )
        _check("read", answer.error_code, answer.error_message)
        found: dict[Entity, Rates] = {}
        for entry in answer.entries or ():
            names = {one.entity_type: one.entity_name for one in entry.entity}
            entity = entity_of(names.get(_CLIENT) or "")
            if entity is not None:
                values = {one.key: float(one.value) for one in entry.values}
                found[entity] = Rates(
                    int(values.get(_PRODUCE, 0)),
                    int(values.get(_CONSUME, 0)),
                    round(values.get(_REQUEST, 0) * PERCENT_US_PER_S),
                )
        return found

    async def alter(self, changes: Sequence[Change]) -> None:
        """Set or remove quotas. Raises: KafkaUnavailable, QuotasRefused when one of them was not taken."""
        request = AlterClientQuotasRequest(
            entries=tuple(altered(self._spec.security.quota_user, change) for change in changes),
            validate_only=False,
        )
        answer = await self._ask(request, AlterClientQuotasResponse)
        for entry in answer.entries:
            _check("set", entry.error_code, entry.error_message)

    # -- connections ---------------------------------------------------------------------------------------

    async def _page(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        return await self._ask(request, DescribeTopicPartitionsResponse)

    async def _ask(self, request: Payload, answers: type[Response], node_id: int | None = None) -> Response:
        """Ask one broker, or any that answers. Raises: KafkaUnavailable."""
        failure = KafkaUnavailable(
            "no broker is registered" if node_id is None else f"there is no broker {node_id}"
        )
        for address in self._spec.brokers:
            if node_id in (None, address.node_id):
                try:
                    answer = await (await self._connection(address)).call(request, timeout_s=_TIMEOUT_S)
                    assert isinstance(answer, answers)
                    return answer
                except KafkaUnavailable as error:
                    failure = error
        raise failure

    async def _connection(self, address: BrokerAddress) -> KafkaConnection:
        kept = self._connections.get(address)
        if kept is None or kept.is_closed:
            kept = await KafkaConnection.open(
                address.host,
                address.port,
                client_id=_CLIENT_ID,
                upstream=self._upstreams.of(self._spec),
                timeout_s=_TIMEOUT_S,
            )
            self._connections[address] = kept
        return kept


def _check(what: str, error_code: ErrorCode, message: str | None) -> None:
    if error_code is not ErrorCode.none:
        raise QuotasRefused(f"client quotas cannot be {what}: {message or error_code.name.upper()}")


def altered(user: str | None, change: Change) -> AlteredEntry:
    """The change as a cluster is told of it; `user` None: whoever has not logged in."""
    rates = change.rates or Rates(0, 0)
    ops: tuple[tuple[str, float], ...] = (
        (_PRODUCE, rates.produce_bytes_per_s),
        (_CONSUME, rates.consume_bytes_per_s),
        (_REQUEST, rates.request_us_per_s / PERCENT_US_PER_S),
    )
    return AlteredEntry(
        entity=(
            AlteredEntity(entity_type=_USER, entity_name=user),
            AlteredEntity(entity_type=_CLIENT, entity_name=change.entity.client_id),
        ),
        ops=tuple(
            OpData(key=key, value=f64(float(value)), remove=change.rates is None) for key, value in ops
        ),
    )


def led_by_node(partitions: Partitions) -> dict[int, dict[str, list[int]]]:
    """Node -> topic -> the partitions that it leads."""
    found: dict[int, dict[str, list[int]]] = {}
    for topic, leaders in partitions.items():
        for partition, node_id in leaders.items():
            found.setdefault(node_id, {}).setdefault(topic, []).append(partition)
    return found


def chunks(partitions: Mapping[str, Sequence[int]], most: int) -> Iterable[dict[str, list[int]]]:
    """The same in pieces of so many partitions."""
    piece: dict[str, list[int]] = {}
    count = 0
    for topic, numbers in partitions.items():
        for number in numbers:
            piece.setdefault(topic, []).append(number)
            count += 1
            if count == most:
                yield piece
                piece, count = {}, 0
    if piece:
        yield piece
